"""Large changes are parsed and planned in a short-lived child process, so that the stream beside them keeps its pace:
parsing holds the interpreter's lock, and hundreds of rules take seconds.

The child is a plain interpreter that runs this module. `multiprocessing` would import the caller's main module again,
which in a program that embeds the engine may be anything."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  between this process and its own child, never stored
import subprocess
import sys
from collections.abc import Mapping, Sequence

from parser.errors import ServiceError, SqlError
from planner.catalog import Catalog
from sqlengine.functions.library import Library
from sqlengine.planning import JobText, PlannedJob, plan_jobs

# Up to so many texts are planned in the calling thread: a child costs half a second of start-up.
INLINE = 20


def plan_texts(
    jobs: Sequence[JobText],
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None = None,
    *,
    child: bool | None = None,
) -> list[PlannedJob | SqlError]:
    """Plans jobs in the order of their dependencies, here or in a child process (by number, unless `child` says). The
    functions of users that they call can be called here afterwards."""
    apart = len(jobs) > INLINE if child is None else child
    plans = (_in_child if apart else plan_jobs)(jobs, catalog, settings, library)
    functions = {f.identity: f for p in plans if isinstance(p, PlannedJob) for f in p.functions}
    if library is not None and functions:
        library.activate(functions.values())
    return plans


def _in_child(
    jobs: Sequence[JobText], catalog: Catalog, settings: Mapping[str, str], library: Library | None
) -> list[PlannedJob | SqlError]:
    request = pickle.dumps((list(jobs), catalog, dict(settings), library))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "sqlengine.workers"]
    done = subprocess.run(command, input=request, capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        raise ServiceError(
            f"the planning process ended with code {done.returncode}",
            detail=done.stderr.decode("utf-8", "replace").strip()[-500:] or "it said nothing (out of memory?)",
            hint="submit fewer statements at a time",
        )
    plans: list[PlannedJob | SqlError] = pickle.loads(done.stdout)  # noqa: S301
    return plans


def _main() -> None:
    from sqlengine.planning import plan_jobs as plan

    jobs, catalog, settings, library = pickle.load(sys.stdin.buffer)  # noqa: S301
    plans = plan(jobs, catalog, settings, library)
    sys.stdout.buffer.write(pickle.dumps(plans, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    _main()
