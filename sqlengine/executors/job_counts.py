"""Counts of jobs: the rows that they wrote, dropped as late, held back, or set aside.

They belong to the state of a graph: a checkpoint has them, and the epochs that a recovery repeats
count again. So they are exact, and a restart takes nothing from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.progress import Progress


class JobCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counts of a job in one graph, or in all of them.

    `rows`: given to sinks; `late_rows`: dropped as late; `dead_letters`: rows of its own that were
    set aside; `version_rows`: those of `rows` since its `version` began; `held_back`: alerts that
    the head of the rule, or SUPPRESSED, keeps from its tables."""

    rows: int = 0
    late_rows: int = 0
    dead_letters: int = 0
    version: int = 0
    version_rows: int = 0
    held_back: int = 0

    def plus(self, other: JobCounts) -> JobCounts:
        """Returns the sum over two graphs; the rows of a version are those of the later one."""
        version = max(self.version, other.version)
        return JobCounts(
            self.rows + other.rows,
            self.late_rows + other.late_rows,
            self.dead_letters + other.dead_letters,
            version,
            sum(c.version_rows for c in (self, other) if c.version == version),
            self.held_back + other.held_back,
        )

    def of_shadow(self, version: int) -> JobCounts:
        """Returns the counts of a rule's shadow, which has the name of those before it, but not
        their rows."""
        rows = self.version_rows if self.version == version else 0
        return msgspec.structs.replace(self, rows=rows)

    def at_least(self, other: JobCounts) -> JobCounts:
        """Returns the greater of two counts of one graph, number by number."""
        later = max(self, other, key=lambda c: (c.version, c.version_rows))
        return JobCounts(
            max(self.rows, other.rows),
            max(self.late_rows, other.late_rows),
            max(self.dead_letters, other.dead_letters),
            later.version,
            later.version_rows,
            max(self.held_back, other.held_back),
        )


NOTHING = JobCounts()


def add_counts(parts: Iterable[Mapping[str, JobCounts]]) -> dict[str, JobCounts]:
    """Returns the sums by job."""
    total: dict[str, JobCounts] = {}
    for part in parts:
        for job, counts in part.items():
            total[job] = total.get(job, NOTHING).plus(counts)
    return total


def raise_counts(
    counts: Mapping[str, JobCounts], least: Mapping[str, JobCounts]
) -> dict[str, JobCounts]:
    """Returns the counts of one graph, by job, none of them below `least`."""
    both = {job: counts[job].at_least(least[job]) for job in counts.keys() & least.keys()}
    return {**least, **counts, **both}


class JobCounter:
    """Counts what the jobs of one graph did, also those that have left it.

    Written by the graph's thread, read by any."""

    def __init__(self, executor: EmbeddedExecutor, progress: Progress) -> None:
        self._executor = executor
        self._progress = progress
        self._restored: dict[str, JobCounts] = {}
        # By job: its version, and the rows before it began.
        self._began: dict[str, tuple[int, int]] = {}

    def restore(self, counts: Mapping[str, JobCounts]) -> None:
        """Continues at the counts of a checkpoint."""
        self._restored = dict(counts)
        self._began = {
            job: (c.version, c.rows - c.version_rows) for job, c in counts.items() if c.version
        }

    def begin(self, versions: Mapping[str, int]) -> None:
        """Begins other versions of jobs; 0 is a job that leaves."""
        changed = {j: v for j, v in versions.items() if v and self._began.get(j, (0, 0))[0] != v}
        if changed:
            rows = self._executor.counts.rows_of(changed)
            before = {job: self._restored.get(job, NOTHING).rows for job in changed}
            self._began |= {j: (v, before[j] + rows[j]) for j, v in changed.items()}

    def counts(self) -> dict[str, JobCounts]:
        """Returns the counts of all jobs that did anything here."""
        executor, began = self._executor, dict(self._began)
        rows, late = executor.counts.rows_by_job(), executor.counts.late_by_job()
        held = executor.counts.held_back_by_job()
        letters = Counter(dict(self._progress.letters))
        jobs = {*rows, *late, *held, *letters, *began, *self._restored} - {""}
        return {
            job: self._count(
                job, JobCounts(rows[job], late[job], letters[job], held_back=held[job])
            )
            for job in jobs
        }

    def _count(self, job: str, here: JobCounts) -> JobCounts:
        """Returns the counts of a job with those before this executor."""
        version, at = self._began.get(job, (0, 0))
        total = self._restored.get(job, NOTHING).plus(here)
        return msgspec.structs.replace(total, version=version, version_rows=total.rows - at)
