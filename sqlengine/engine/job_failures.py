"""The failures that graphs report, until their jobs have left these graphs."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from parser.errors import ExecutionError, SqlError
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_lifecycle import JobLifecycle
from sqlengine.executors.failures import LastingFailure, OperatorFailed, StepEnded
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.jobs.job import Job, JobState
from sqlengine.registry import Registry
from sqlengine.system.memory import give_back
from sqlengine.system.threads import Threads, Timer
from sqlengine.system.words import counted, grouped

log = logging.getLogger("sqlengine")
# Seconds until a graph that cannot be recovered is tried again, at first and at most.
_RETRY_S: Final = 0.5
_RETRY_MOST_S: Final = 30.0
# The states of failed jobs that are started again, after they left their graph or with it.
_GO_ON: Final = (JobState.RESTARTING, JobState.RUNNING)


class _Failure(NamedTuple):
    """A failure that a graph has reported. `wait_s`: until it is tried again, where its graph
    cannot be recovered."""

    jobs: frozenset[str]
    reason: str
    lasting: bool
    wait_s: float = _RETRY_S


class JobFailures:
    """Fails jobs, as graphs and users' functions report them, before anything else is changed.

    `report`, `give_up` and `report_function` may be called by any thread, everything else by the
    one that makes changes, to which `later` hands work. `closed`: nothing is reported any more."""

    def __init__(
        self,
        registry: Registry,
        later: Callable[[Callable[[], None]], Future[None]],
        threads: Threads,
    ) -> None:
        self.closed = threading.Event()
        self._registry = registry
        self._later = later
        self._threads = threads
        self._timer: Timer | None = None
        # Reported, and not started again since: what they report now is known.
        self._failing: set[str] = set()
        self._reported: deque[_Failure] = deque()
        self._stopping: Counter[str] = Counter()

    @contextmanager
    def stopping(self, job: str) -> Iterator[None]:
        """While the body runs, this job is being stopped: ended in a step, it keeps what it had."""
        self._stopping[job] += 1
        try:
            yield
        finally:
            self._stopping[job] -= 1

    def open(self, graphs: GraphManager, lifecycle: JobLifecycle) -> None:
        """Sets what reports here, and what fails jobs: before the first graph is opened."""
        self._graphs = graphs
        self._lifecycle = lifecycle

    def is_failing(self, job: str) -> bool:
        """True from a job's failure on, until it starts again. Returns once the job's state says
        so, or after a minute. Any thread but the one that makes changes."""
        if job not in self._failing:
            return False
        with suppress(RuntimeError, TimeoutError):  # it is closed, or busy
            self._later(lambda: None).result(60)  # behind `settle`
        return True

    @property
    def waiting(self) -> bool:
        """True while failures are reported that `settle` has not seen."""
        return bool(self._reported)

    def forget(self, jobs: Collection[str]) -> None:
        """Hears of failures of these jobs again: they start, or are changed."""
        self._failing.difference_update(jobs)

    def report(self, jobs: frozenset[str], reason: str, *, lasting: bool = False) -> None:
        """Fails jobs: they leave the graph, the others run on. Called by a graph's thread. After a
        `lasting` failure they are not started again."""
        # Jobs that are to leave may break their graph first: it has to be restored all the same.
        new = jobs if self._are_broken(jobs) else jobs - self._failing
        if new and not self.closed.is_set():
            self._failing |= new
            self._reported.append(_Failure(new, reason, lasting))
            self._settle_later()

    def _settle_later(self) -> None:
        # Closed in this moment, the engine sees it again after its next start.
        with suppress(RuntimeError):
            self._later(self.settle)

    def _are_broken(self, jobs: frozenset[str]) -> bool:
        graphs = list(self._graphs.by_name.values())
        return any(g.runner.broken and jobs & g.runner.jobs.keys() for g in graphs)

    def give_up(self, guard: StepGuard, failure: Exception) -> None:
        """Gives up the thread of a graph, which does not come back from a call, and with it the
        graph's memory: what comes back does nothing more. Called by the thread that watches."""
        graph = self._graphs.by_name.get(guard.graph)
        if graph is None or graph.executor.guard is not guard:
            return  # it is being recovered: nobody else can go on
        guard.abandoned = graph.runner.broken = graph.loop.broken = True
        if isinstance(failure, OperatorFailed | StepEnded):
            self.report(failure.jobs, str(failure), lasting=True)

    def settle(self) -> None:
        """Fails the jobs that graphs have reported, before anything else is changed."""
        failed: list[tuple[str, Job]] = []
        unsettled: list[_Failure] = []
        while self._reported:
            failure = self._reported.popleft()
            try:
                jobs = self._fail(failure.jobs, failure.reason, failure.lasting)
                failed += [(failure.reason, job) for job in jobs]
            except Exception as error:  # noqa: BLE001  the graph cannot be recovered now
                unsettled.append(self._retry(failure, error))
        # Kept: their graphs stand still, and are recovered before anything else is changed.
        self._reported.extend(unsettled)
        self._log_failed(failed)

    def _retry(self, failure: _Failure, error: Exception) -> _Failure:
        """Has the failure settled again after a while, and returns it with the wait after that."""
        log.error(
            "%s: the graph cannot be recovered without what failed, it is tried again in %g s: %s",
            counted(sorted(failure.jobs)),
            failure.wait_s,
            error,
            exc_info=None if isinstance(error, SqlError) else error,
        )
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._threads.later(failure.wait_s, self._settle_later)
        return failure._replace(wait_s=min(2 * failure.wait_s, _RETRY_MOST_S))

    def _log_failed(self, failed: Sequence[tuple[str, Job]]) -> None:
        """Logs each reason once, with the jobs that failed for it."""
        jobs = {job.name: job for _, job in failed}
        alike = grouped(((reason, job.state in _GO_ON), job.name) for reason, job in failed)
        for (reason, again), names in alike.items():
            soonest = max(0, min(jobs[n].next_ms for n in names) - self._registry.clock()) / 1000
            then = f"; started again in {soonest:.1f} s" if again else ""
            log.error("%s failed: %s%s", counted(names), reason, then)

    def _fail(self, names: frozenset[str], reason: str, lasting: bool) -> Sequence[Job]:
        """Takes jobs that failed out of their graph. Returns those that there are."""
        kept = self._reopen_without(names, reason)
        # A job that is being removed has left its graph by now, and the removal comes next.
        present = (names & self._registry.log.jobs.keys()) - self._registry.steps.jobs_leaving()
        self._lifecycle.keep({n: key for n, key in kept.items() if self._stopping[n]})
        if not present:
            return []
        try:
            failed = self._lifecycle.fail(present, reason, lasting=lasting, kept=kept)
            self.forget([job.name for job in failed if job.state is JobState.RUNNING])
            return failed
        except Exception:
            shown = counted(sorted(present))
            log.exception("%s could not be stopped, it will be tried again", shown)
            self.forget(present)
            return []

    def restore_for_leaving(self) -> bool:
        """Recovers broken graphs without the jobs that somebody removes or stops; returns False if
        there are none. Whatever broke them, a job may leave."""
        leaving = self._registry.steps.jobs_leaving()
        graphs = list(self._graphs.by_name.values())
        names = leaving.intersection(n for g in graphs if g.runner.broken for n in g.runner.jobs)
        if not names:
            return False
        kept = self._reopen_without(names, "its graph stood still")
        self._lifecycle.keep({n: key for n, key in kept.items() if self._stopping[n]})
        return True

    def _reopen_without(self, names: frozenset[str], reason: str) -> dict[str, str]:
        """Recovers the graphs that these jobs have broken. Returns the keys of what they keep."""
        kept: dict[str, str] = {}
        for graph in list(self._graphs.by_name.values()):
            faulty = {
                (n, v): ExecutionError(reason) for n, v in graph.runner.jobs.items() if n in names
            }
            if graph.runner.broken and faulty:
                leaving = self._registry.steps.jobs_leaving()
                keeps = not any(n in leaving and not self._stopping[n] for n in names)
                self._graphs.reopen(graph, faulty, keeps=keeps)
                taken_out, lost = self._graphs.taken_out(), self._graphs.lost()
                kept |= taken_out
                self._registry.reconcile(self._graphs.running(), lost, self._graphs.unavailable())
                self._fail_others({n: k for n, k in taken_out.items() if n not in names}, lost)
                give_back()  # the output of the step that failed may have been gigabytes
        return kept

    def _fail_others(self, kept: Mapping[str, str], lost: Mapping[str, SqlError]) -> None:
        """Fails jobs that a recovery has taken out, too, since they failed in it: they are started
        again as those for which it was made."""
        present = kept.keys() & self._registry.log.jobs.keys() & lost.keys()
        for name in sorted(present - self._registry.steps.jobs_leaving()):
            lasting = isinstance(lost[name], LastingFailure)
            self._lifecycle.fail([name], str(lost[name]), lasting=lasting, kept=kept)

    def report_function(self, identity: str, reason: str) -> None:
        """Fails the jobs that call a user's function which was switched off. Called by a graph's
        thread."""
        self.report(self._graphs.callers(identity), reason, lasting=True)
