"""How much state the operators of a graph hold, and the end of jobs that hold more than they
may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import OptionError
from planner.graph.merge import Graph
from planner.graph.takeover import name_of
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import JobsFailed
from sqlengine.formats.options import size

LIMIT: Final = "memory.limit"
# So many rows may be read between two looks.
CHECK_INTERVAL_ROWS: Final = 4096


@dataclass(frozen=True)
class TableSize:
    """A table of an operator: `bytes` is what its arrays take, text and lists estimated from some
    of the rows."""

    name: str
    layout: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class OperationState:
    """What one operation keeps. `job_state`: it is state of its jobs, and not how far the time of
    their sources is."""

    node: str
    name: str
    job_state: bool
    jobs: frozenset[str]
    tables: tuple[TableSize, ...]

    @property
    def rows(self) -> int:
        return sum(t.rows for t in self.tables)

    @property
    def bytes(self) -> int:
        return sum(t.bytes for t in self.tables)


def memory_limit(settings: Mapping[str, str]) -> int:
    """Bytes of `memory.limit`, which is set. OptionError for what is no size."""
    try:
        return size(settings[LIMIT])
    except ValueError as error:
        raise OptionError(f"'{LIMIT}' cannot be '{settings[LIMIT]}'", detail=str(error)) from None


def footprint(
    executor: EmbeddedExecutor, graph: Graph, job: str | None = None
) -> Iterator[OperationState]:
    """What the operations of a graph keep, or those of one job, in the order of the plan (in the
    graph's thread). What stands between the parts of a divided graph is nobody's."""
    names = (
        [n for n in executor.created_at_version() if n in graph.nodes]
        if job is None
        else graph.jobs.get(job, ())
    )
    for node in sorted((graph.nodes[n] for n in names), key=lambda n: n.rank):
        tables = executor.tables_of(node.id)
        if tables:
            sizes = tuple(TableSize(n, t.layout, len(t), t.bytes) for n, t in tables.items())
            yield OperationState(node.id, name_of(node.plan), node.plan.stateful, node.jobs, sizes)


class MemoryExceeded(JobsFailed):
    """A job holds more state than it may."""

    def __init__(
        self, job: str, limit: int, largest: OperationState, used: int, *, own: bool
    ) -> None:
        whose = f"state of job '{job}' takes" if own else "state of all jobs takes"
        super().__init__(
            f"{whose} {megabytes(used)}, '{LIMIT}' is {megabytes(limit)}",
            detail=(
                f"'{largest.name}' of job '{job}' holds {megabytes(largest.bytes)} in"
                f" {largest.rows:,} rows"
            ),
            hint=(
                "raise the limit, or let state be forgotten: SET 'table.exec.state.ttl' = '…',"
                " windows, a narrower key"
            ),
        )
        self.jobs = frozenset({job})


class MemoryLimits:
    """The limits of one engine: `total` for the state of all its graphs, and those of job versions.
    Known to all graphs: `used` is what each of them held when it looked last."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.used: dict[str, int] = {}
        self._jobs: dict[tuple[str, int], int] = {}

    def limit(self, job: str, version: int, limit: int) -> None:
        self._jobs[job, version] = limit

    def of(self, job: str, version: int) -> int | None:
        """That of a job's version; None where it has none."""
        return self._jobs.get((job, version))

    @property
    def any(self) -> bool:
        return bool(self._jobs) or self.total is not None


class MemoryGuard:
    """Checks the state size of a graph every `CHECK_INTERVAL_ROWS` input rows.

    State may exceed its limit by what that many rows add."""

    def __init__(self, name: str, limits: MemoryLimits) -> None:
        self._name = name
        self._limits = limits
        self._due = 0  # rows read when it looks again

    def check(
        self, executor: EmbeddedExecutor, graph: Graph, jobs: Mapping[str, int], rows_in: int
    ) -> None:
        """Raises MemoryExceeded while a job holds more than it may: before more is read."""
        if not self._limits.any or rows_in < self._due:
            return
        held = [o for o in footprint(executor, graph) if o.job_state]
        self._limits.used[self._name] = sum(o.bytes for o in held)
        self._check_jobs(held, jobs)
        self._check_total(held)
        self._due = rows_in + CHECK_INTERVAL_ROWS

    def _check_jobs(self, held: list[OperationState], jobs: Mapping[str, int]) -> None:
        used = _by_job(held)
        for job, number in used.items():
            limit = self._limits.of(job, jobs.get(job, 0))
            if limit is not None and number > limit:
                raise MemoryExceeded(job, limit, _largest(held, job), number, own=True)

    def _check_total(self, held: list[OperationState]) -> None:
        total, used = self._limits.total, sum(list(self._limits.used.values()))
        if total is not None and used > total and held:
            job = _by_job(held).most_common(1)[0][0]
            raise MemoryExceeded(job, total, _largest(held, job), used, own=False)


def script_guard(name: str, settings: Mapping[str, str]) -> MemoryGuard | None:
    """That of a script, by its own setting. OptionError for what is no size."""
    if LIMIT not in settings:
        return None
    limits = MemoryLimits()
    limits.limit(name, 1, memory_limit(settings))
    return MemoryGuard(name, limits)


def _by_job(held: list[OperationState]) -> Counter[str]:
    """What jobs hold; what they share counts for each."""
    used: Counter[str] = Counter()
    for operation in held:
        used.update(dict.fromkeys(operation.jobs, operation.bytes))
    return used


def _largest(held: list[OperationState], job: str) -> OperationState:
    return max((o for o in held if job in o.jobs), key=lambda o: o.bytes)


def megabytes(number: int) -> str:
    """1.5 MB, or 12 KB of what is less than one."""
    return f"{number / (1 << 20):,.1f} MB" if number >= 1 << 20 else f"{number / 1024:,.0f} KB"
