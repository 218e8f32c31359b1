"""Parses and plans large changes in a short-lived child process.

Parsing holds the interpreter's lock, and hundreds of rules take seconds: beside a stream that must
keep its pace they are planned elsewhere. The child is a plain interpreter that imports this module.
`multiprocessing` would import the caller's main module again, which in a program that embeds the
engine may be anything.
"""

from __future__ import annotations

import os
import pickle  # noqa: TID251  between this process and its own child, never stored
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from parser.errors import ServiceError, SqlError
from planner.catalog import Catalog
from sqlengine.functions.library import Library
from sqlengine.jobs.plan_cache import PlanCache
from sqlengine.jobs.planning import JobText, PlannedJob, plan_jobs

# Up to so many texts are planned in the calling thread: a child costs as much CPU time for its
# start as 300 rules do (0.7 s). So many where there is no stream to hold up.
INLINE, INLINE_ALONE = 20, 300


@dataclass
class Planner:
    """Plans texts for one engine, under its settings and with its users' functions.

    `cache`: the file where plans are kept (None: nowhere); `counters`: plans from the cache (hits)
    and made anew (misses).
    """

    settings: Mapping[str, str]
    library: Library | None = None
    cache: Path | None = None
    counters: Counter[str] = field(default_factory=Counter)

    def plan(
        self,
        jobs: Sequence[JobText],
        catalog: Catalog,
        *,
        child: bool | None = None,
        alone: bool = False,
    ) -> list[PlannedJob | SqlError]:
        """Plans jobs in the order of their dependencies, in this thread or in a child process.

        `child` says which; by default the number of jobs decides. `alone`: no stream runs that
        planning could slow down. Afterwards the users' functions that the plans name can be called.
        """
        apart = len(jobs) > (INLINE_ALONE if alone else INLINE) if child is None else child
        work = _Work(tuple(jobs), catalog, self.settings, self.library, self.cache)
        plans, counters = (_in_child if apart else _plan)(work)
        self.counters.update(counters)
        functions = {f.identity: f for p in plans if isinstance(p, PlannedJob) for f in p.functions}
        if self.library is not None and functions:
            self.library.activate(functions.values())
        return plans


@dataclass(frozen=True)
class _Work:
    """A request for the child process, pickled."""

    jobs: Sequence[JobText]
    catalog: Catalog
    settings: Mapping[str, str]
    library: Library | None
    cache: Path | None


_Done: TypeAlias = tuple[list[PlannedJob | SqlError], Counter[str]]


def _plan(work: _Work) -> _Done:
    if work.cache is None:
        return plan_jobs(work.jobs, work.catalog, work.settings, work.library), Counter()
    with PlanCache(work.cache) as cache:
        return plan_jobs(
            work.jobs, work.catalog, work.settings, work.library, cache.plan
        ), cache.counters


def _in_child(work: _Work) -> _Done:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    program = (
        "from sqlengine.system.memory import importing\n"
        f"with importing():\n    from {__name__} import main\nmain()"
    )
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(
        command, input=pickle.dumps(work), capture_output=True, env=environment, check=False
    )
    if done.returncode != 0:
        raise ServiceError(
            f"the planning process ended with code {done.returncode}",
            detail=done.stderr.decode("utf-8", "replace").strip()[-500:]
            or "it said nothing (out of memory?)",
            hint="submit fewer statements at a time",
        )
    plans: _Done = pickle.loads(done.stdout)  # noqa: S301
    return plans


def main() -> None:
    """Entry of the child process: reads work from stdin, writes plans to stdout."""
    work: _Work = pickle.load(sys.stdin.buffer)  # noqa: S301
    sys.stdout.buffer.write(pickle.dumps(_plan(work), protocol=pickle.HIGHEST_PROTOCOL))
