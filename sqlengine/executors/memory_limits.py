"""Measures the state of a graph's operators and fails jobs that exceed 'memory.limit'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from parser.errors import OptionError
from planner.graph.merge import Graph
from planner.wording import named
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import JobsFailed
from sqlengine.executors.steps.by_version import ByVersion
from sqlengine.system.memory import resident_bytes, usable_bytes
from sqlengine.system.sizes import size

LIMIT: Final = "memory.limit"
# Input rows between two checks.
CHECK_INTERVAL_ROWS: Final = 4096


@dataclass(frozen=True)
class TableSize:
    """The size of an operator's table. `bytes` is that of its arrays; of texts and lists it is
    estimated from some of the rows."""

    name: str
    layout: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class OperationState:
    """The state of one operation. `job_state`: False for tables that only hold the watermarks of
    sources."""

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
    """The value of 'memory.limit' in bytes; it must be set. OptionError if it is no size."""
    try:
        return size(settings[LIMIT])
    except ValueError as error:
        raise OptionError(f"'{LIMIT}' cannot be '{settings[LIMIT]}'", detail=str(error)) from None


def footprint(
    executor: EmbeddedExecutor, graph: Graph, job: str | None = None
) -> Iterator[OperationState]:
    """Yields the state of a graph's operations, or of those of one job, in the order of the plan.
    Leaves out the shuffle between subtasks, which belongs to no job. Graph thread only."""
    names = (
        [n for n in executor.created_at_version() if n in graph.nodes]
        if job is None
        else graph.jobs.get(job, ())
    )
    for node in sorted((graph.nodes[n] for n in names), key=lambda n: n.rank):
        layouts = executor.layouts(node.id)
        if layouts:
            known = executor.sizes_of(node.id)
            sizes = tuple(TableSize(n, layout, *known[n]) for n, layout in layouts.items())
            yield OperationState(node.id, named(node.plan), node.plan.stateful, node.jobs, sizes)


def state_by_job(executor: EmbeddedExecutor, graph: Graph) -> Counter[str]:
    """Returns the bytes of state of each job that has any: of operations that jobs share, equal
    parts. Graph thread only."""
    found: Counter[str] = Counter()
    for operation in footprint(executor, graph):
        if operation.job_state and operation.jobs:
            part = operation.bytes // len(operation.jobs)
            found.update(dict.fromkeys(operation.jobs, part))
    return found


# What is raised, by whether the limit is the job's own.
_RAISED = {True: f"'{LIMIT}' of the job", False: "'sql serve --memory-limit'"}
# The name of the principal of a job's version, and the bytes that all its jobs may hold, None for
# any.
Quota: TypeAlias = tuple[str, int | None]


class MemoryExceeded(JobsFailed):
    """A job holds more state than its limit, or the most of all jobs when these exceed theirs."""

    lasting: ClassVar[bool] = True

    def __init__(
        self, job: str, limit: int, largest: OperationState, used: int, *, own: bool
    ) -> None:
        whose = f"state of job '{job}' takes" if own else "state of all jobs takes"
        super().__init__(
            f"{whose} {megabytes(used)}, '{LIMIT}' is {megabytes(limit)}",
            detail=f"'{largest.name}' of job '{job}' holds {megabytes(largest.bytes)}"
            + (f" in {largest.rows:,} rows" if largest.rows else ""),
            hint=(
                f"raise {_RAISED[own]}, or let state be forgotten: SET 'table.exec.state.ttl' ="
                " '…', windows, a narrower key"
            ),
        )
        self.jobs = frozenset({job})


class QuotaExceeded(JobsFailed):
    """The jobs of a principal hold more state than they may; this one holds the most."""

    lasting: ClassVar[bool] = True

    def __init__(self, job: str, owner: str, limit: int, used: int) -> None:
        super().__init__(
            f"state of all jobs of principal '{owner}' takes {megabytes(used)}, its quota is"
            f" {megabytes(limit)}",
            detail=f"job '{job}' holds the most",
            hint="let state be forgotten: SET 'table.exec.state.ttl' = '…', narrower keys",
        )
        self.jobs = frozenset({job})


class OutputExceeded(JobsFailed):
    """A job without a limit of its own puts out more in one step than memory should hold."""

    lasting: ClassVar[bool] = True

    def __init__(self, job: str, used: int, most: int) -> None:
        super().__init__(
            f"job '{job}' puts out {megabytes(used)} in one step, at most {megabytes(most)} are"
            " allowed",
            detail="output waits in memory until its step is complete",
            hint=f"narrower windows or keys put out less; SET '{LIMIT}' = '…' allows more",
        )
        self.jobs = frozenset({job})


class MemoryLimits:
    """The limits of one engine in bytes, shared by all its graphs.

    `given`: the limit for the state of all graphs; `standard`: the one that holds where none is
    given, None for any. `step_output`: what a job may put out in one step where there is no other
    limit, None for any. `used`: the state of each graph at its last check, and `owned`: by its
    principals. `quota_of`: the quota of a job's version; `has_quotas`: True if there is any."""

    def __init__(
        self,
        given: int | None = None,
        step_output: int | None = None,
        standard: int | None = None,
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        self.given = given
        self.standard = standard
        self.step_output = step_output
        self._resident = resident
        self.used: dict[str, int] = {}
        self.owned: dict[str, Counter[str]] = {}
        self.quota_of: Callable[[str, int], Quota] = lambda job, version: ("", None)
        self.has_quotas: Callable[[], bool] = lambda: False
        self._jobs: ByVersion[int | None] = ByVersion()

    def set_limit(self, job: str, version: int, limit: int) -> None:
        """Sets the limit of a job's version in bytes."""
        self._jobs.set(job, version, limit)

    def limit_of(self, job: str, version: int) -> int | None:
        """The limit of a job's version in bytes; None if it has none."""
        return self._jobs.get(job, version, None)

    def retain(self, job: str, versions: Collection[int]) -> None:
        """Forgets the limits of the job's other versions."""
        self._jobs.retain(job, versions)

    @property
    def total(self) -> int | None:
        """The limit for the state of all graphs, if there is one."""
        return self.standard if self.given is None else self.given

    @property
    def must_measure(self) -> bool:
        """True if state must be measured: there is a limit that it may have passed. The process has
        more than the state, and tells its own size at once."""
        if self._jobs or self.given is not None or self.has_quotas():
            return True
        return self.standard is not None and self._resident() > self.standard


class MemoryGuard:
    """Checks the state size of a graph every `CHECK_INTERVAL_ROWS` input rows.

    State may exceed its limit by what that many rows add."""

    def __init__(self, name: str, limits: MemoryLimits) -> None:
        self._name = name
        self._limits = limits
        self._due = 0  # input rows at the next check

    def check(
        self, executor: EmbeddedExecutor, graph: Graph, jobs: Mapping[str, int], rows_in: int
    ) -> None:
        """Raises MemoryExceeded while a job exceeds its limit. Called before more is read."""
        if rows_in < self._due:
            return
        if not self._limits.must_measure:
            self._due = rows_in + CHECK_INTERVAL_ROWS
            return
        operations = [o for o in footprint(executor, graph) if o.job_state]
        self._limits.used[self._name] = sum(o.bytes for o in operations)
        self._check_jobs(operations, jobs)
        self._check_owners(operations, jobs)
        self._check_total(operations)
        # Only behind the checks: while a limit is exceeded, each call measures again and raises.
        self._due = rows_in + CHECK_INTERVAL_ROWS

    def exceeded(
        self,
        executor: EmbeddedExecutor,
        graph: Graph,
        jobs: Mapping[str, int],
        output: Mapping[str, int],
    ) -> JobsFailed | None:
        """Returns the error of a job that exceeds its limit within a step. `output`: the bytes of
        the epoch's rows that are not committed, by job."""
        if (error := self._output_exceeded(jobs, output)) is not None:
            return error
        if not self._limits.must_measure:
            return None
        operations = [o for o in footprint(executor, graph) if o.job_state]
        operations += [
            OperationState(
                "", "output of one step", True, frozenset({job}), (TableSize("", "", 0, size),)
            )
            for job, size in output.items()
        ]
        self._limits.used[self._name] = sum(o.bytes for o in operations)
        try:
            self._check_jobs(operations, jobs)
            self._check_owners(operations, jobs)
            self._check_total(operations)
        except (MemoryExceeded, QuotaExceeded) as error:
            return error
        return None

    def _output_exceeded(
        self, jobs: Mapping[str, int], output: Mapping[str, int]
    ) -> OutputExceeded | None:
        most = self._limits.step_output
        if most is None or self._limits.given is not None:
            return None
        for job, number in output.items():
            if number > most and self._limits.limit_of(job, jobs.get(job, 0)) is None:
                return OutputExceeded(job, number, most)
        return None

    def _check_jobs(self, operations: list[OperationState], jobs: Mapping[str, int]) -> None:
        used = _by_job(operations)
        for job, number in used.items():
            limit = self._limits.limit_of(job, jobs.get(job, 0))
            if limit is not None and number > limit:
                raise MemoryExceeded(job, limit, _largest(operations, job), number, own=True)

    def _check_owners(self, operations: list[OperationState], jobs: Mapping[str, int]) -> None:
        quota_of = self._limits.quota_of
        if not self._limits.has_quotas():
            return
        used, limits = Counter[str](), dict[str, int]()
        owners = {job: quota_of(job, jobs.get(job, 0)) for o in operations for job in o.jobs}
        for operation in operations:
            for owner, limit in {owners[job] for job in operation.jobs}:
                used[owner] += operation.bytes
                if limit is not None:
                    limits[owner] = limit
        self._limits.owned[self._name] = used
        for owner, limit in limits.items():
            total = sum(u[owner] for u in list(self._limits.owned.values()))
            if used[owner] and total > limit:
                own = Counter(
                    {j: n for j, n in _by_job(operations).items() if owners[j][0] == owner}
                )
                raise QuotaExceeded(own.most_common(1)[0][0], owner, limit, total)

    def _check_total(self, operations: list[OperationState]) -> None:
        # A copy: the threads of other graphs write their own entries meanwhile.
        total, used = self._limits.total, sum(list(self._limits.used.values()))
        if total is not None and used > total and operations:
            job = _by_job(operations).most_common(1)[0][0]
            raise MemoryExceeded(job, total, _largest(operations, job), used, own=False)


def standard_limit() -> int:
    """The limit for all state where none is given, in bytes: 80 % of the memory of the machine, or
    of the container that has less."""
    return usable_bytes() * 4 // 5


def script_guard(name: str, settings: Mapping[str, str], jobs: Collection[str]) -> MemoryGuard:
    """The guard of a script, by its 'memory.limit', which is for all its `jobs` together.
    OptionError if that is no size."""
    limit = memory_limit(settings) if LIMIT in settings else None
    limits = MemoryLimits(limit if len(jobs) > 1 else None, standard=standard_limit())
    if limit is not None and len(jobs) == 1:
        limits.set_limit(next(iter(jobs)), 1, limit)
    return MemoryGuard(name, limits)


def _by_job(operations: list[OperationState]) -> Counter[str]:
    """The bytes that each job holds; shared operations count for each of their jobs."""
    used: Counter[str] = Counter()
    for operation in operations:
        used.update(dict.fromkeys(operation.jobs, operation.bytes))
    return used


def _largest(operations: list[OperationState], job: str) -> OperationState:
    return max((o for o in operations if job in o.jobs), key=lambda o: o.bytes)


def megabytes(number: int) -> str:
    """A size for messages: `1.5 MB`, or `12 KB` below 1 MB."""
    return f"{number / (1 << 20):,.1f} MB" if number >= 1 << 20 else f"{number / 1024:,.0f} KB"
