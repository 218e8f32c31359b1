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
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from parser.errors import JobError, ServiceError, SqlError
from parser.limits import lifted, present
from planner.catalog import Catalog
from sqlengine.functions.library import Library
from sqlengine.jobs.plan_cache import PlanCache
from sqlengine.jobs.planning import JobText, PlannedJob, at_rest, plan_jobs

# Up to so many texts are planned in the calling thread: a child costs as much CPU time for its
# start as 300 rules do (0.7 s). So many where there is no stream to hold up.
INLINE, INLINE_ALONE = 20, 300
# A text of more characters may take a second or more by itself (10 s for a million).
INLINE_CHARACTERS: Final = 1 << 16
# Seconds that a child has beyond those of its jobs, before it is killed.
_GRACE_S: Final = 10.0
# Texts that are planned ahead at the same time.
_AHEAD: Final = threading.BoundedSemaphore(2)


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
    ahead: dict[str, tuple[JobText, Catalog, PlannedJob | SqlError]] = field(default_factory=dict)

    def plan_ahead(self, job: JobText, catalog: Catalog) -> None:
        """Plans a long text in a child process, for the `plan` that follows if the catalog is
        still the same then. Any thread: others need not wait for it."""
        with _AHEAD:
            (plan,) = self.plan([job], catalog, child=True)
        self.ahead[job.name] = job, catalog, plan

    def forget_ahead(self, names: Iterable[str]) -> None:
        """Drops what was planned ahead and not used."""
        for name in names:
            self.ahead.pop(name, None)

    def plan(
        self,
        jobs: Sequence[JobText],
        catalog: Catalog,
        *,
        child: bool | None = None,
        alone: bool = False,
        limited: bool = True,
    ) -> list[PlannedJob | SqlError]:
        """Plans jobs in the order of their dependencies, in this thread or in a child process.

        `child` says which; by default the number of jobs and the longest one decide. `alone`: no
        stream runs that planning could slow down. `limited`: no text takes longer, or is larger,
        than the limits allow. Afterwards the users' functions that the plans name can be called.
        """
        known = self.ahead.pop(jobs[0].name, None) if len(jobs) == 1 else None
        if known is not None and known[:2] == (jobs[0], catalog):
            return [known[2]]
        apart = _is_much(jobs, alone) if child is None else child
        work = _Work(tuple(jobs), catalog, self.settings, self.library, self.cache, limited)
        planned, counters = (_in_child if apart else _plan)(work)
        plans = [at_rest(p) if isinstance(p, PlannedJob) else p for p in planned]
        self.counters.update(counters)
        functions = {f.identity: f for p in plans if isinstance(p, PlannedJob) for f in p.functions}
        if self.library is not None and functions:
            self.library.activate(functions.values())
        return plans


def is_long(job: JobText) -> bool:
    """True for a text that may take a second or more to plan."""
    return len(job.sql) > INLINE_CHARACTERS


def _is_much(jobs: Sequence[JobText], alone: bool) -> bool:
    """True if planning takes so long that it is not done in the calling thread."""
    many = INLINE_ALONE if alone else INLINE
    return len(jobs) > many or any(map(is_long, jobs))


@dataclass(frozen=True)
class _Work:
    """A request for the child process, pickled."""

    jobs: Sequence[JobText]
    catalog: Catalog
    settings: Mapping[str, str]
    library: Library | None
    cache: Path | None
    limited: bool = True


_Done: TypeAlias = tuple[list[PlannedJob | SqlError], Counter[str]]


def _plan(work: _Work) -> _Done:
    with nullcontext() if work.limited else lifted():
        return _plan_all(work)


def _plan_all(work: _Work) -> _Done:
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
    most = present().planning_time * len(work.jobs) + _GRACE_S
    try:
        done = subprocess.run(
            command,
            input=pickle.dumps(work),
            capture_output=True,
            env=environment,
            check=False,
            timeout=most if work.limited else None,
        )
    except subprocess.TimeoutExpired:
        raise JobError(
            f"planning took more than {most:g} s ('planning-time')",
            hint="submit fewer statements at a time, or simpler ones",
        ) from None
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
