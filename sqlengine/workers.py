"""Large changes are parsed and planned in a short-lived child process, so that the stream beside them keeps its pace:
parsing holds the interpreter's lock, and hundreds of rules take seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from parser.errors import SqlError
from planner.catalog import Catalog
from sqlengine.planning import JobText, PlannedJob, plan_jobs

# Up to so many texts are planned in the calling thread: a child costs a second of start-up.
INLINE = 20


def plan_texts(
    jobs: Sequence[JobText], catalog: Catalog, settings: Mapping[str, str], *, child: bool | None = None
) -> list[PlannedJob | SqlError]:
    """Plans jobs in the order of their dependencies, here or in a child process (by number, unless `child` says)."""
    apart = len(jobs) > INLINE if child is None else child
    if not apart:
        return plan_jobs(jobs, catalog, settings)
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(plan_jobs, jobs, catalog, settings).result()
