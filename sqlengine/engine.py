"""The engine: jobs come, change and go while the graph runs.

A change goes one way, whoever asks for it:

    text -> parse -> bind -> optimize -> merge (into the graph) -> lower -> prepare (compile) -> switch (between two epochs)

All but the switch happens in one thread beside the stream, so changes are made one after the other. A new version
stands in the job log before it takes effect, and a change that fails leaves everything as it was."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from parser.errors import JobError, SqlError, UnknownObject
from planner.catalog import Catalog
from planner.merge import Graph, merge
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.changes import (
    Outcome,
    Request,
    check_in_use,
    check_origin,
    defined_only_by,
    full_name,
    state_report,
    without,
)
from sqlengine.config import Config
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.runner import GraphChange
from sqlengine.explanation import Json, explain_sinks, explain_sinks_json
from sqlengine.graphs import GraphHost, RunningGraph
from sqlengine.jobs import Job, JobLog, JobState, JobVersion, Origin, check_name, moved
from sqlengine.planning import JobText, PlannedJob, bind_job, with_objects
from sqlengine.rebuild import Rebuilder
from sqlengine.workers import plan_texts

T = TypeVar("T")
log = logging.getLogger("sqlengine")

MAIN = "main"
_LIVE = (JobState.RUNNING, JobState.STOPPED, JobState.DEFINED)


def wall_clock() -> int:
    """ms since 1970."""
    return time.time_ns() // 1_000_000


class Engine:
    """Opens the data folder (DataFolderLocked if another process has it), recovers, and runs after `start`."""

    def __init__(self, config: Config, clock: Callable[[], int] = wall_clock) -> None:
        self.config = config
        self.broker = EmbeddedBroker(config.data, fsync=config.fsync, clock=clock)
        self.log = JobLog(self.broker)
        self.catalog = Catalog()
        self._clock = clock
        self._changes = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._plans: dict[tuple[str, int], PlannedJob] = {}
        self._failing: set[str] = set()
        self._closed = threading.Event()
        factory = OperatorFactory(replace(config.rules, folder=config.data / "patterns"))
        host = GraphHost(config, self.broker, factory, clock, self._fails_on_error, self._on_failure)
        self._replan()
        self.graph = RunningGraph(MAIN, host, self._plans_of)
        self._rebuilder = Rebuilder(self.graph, self._changes)
        self._reconcile()
        self._plans.clear()

    def start(self) -> None:
        """Begins to run. Short switch interval: a change beside the stream must not hold it up for 5 ms at a time."""
        sys.setswitchinterval(0.0005)
        gc.collect()
        gc.freeze()
        self.graph.loop.start()

    def close(self) -> None:
        """Ends the running epoch, writes a checkpoint, releases the folder."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._changes.shutdown(wait=True)
        self._rebuilder.close()
        self.graph.close()
        self.broker.close()

    # ---- requests ----------------------------------------------------------------------------------------------

    def submit(
        self, name: str, sql: str, origin: Origin = Origin.SDK, *, file: str | None = None, take_over: bool = False
    ) -> Outcome:
        """Adds or replaces one job; raises what is wrong with it, and the old version runs on."""
        request = Request(origin, {name: JobText(name, sql, file)}, take_over=take_over)
        return _raised(self.change(request)[name])

    def remove(self, name: str, origin: Origin = Origin.SDK, *, take_over: bool = False) -> Outcome:
        """Removes a job and its state. Its versions stay in the history."""
        return _raised(self.change(Request(origin, removes=frozenset({name}), take_over=take_over))[name])

    def change(self, request: Request) -> dict[str, Outcome]:
        """One change of many jobs. Those that are refused leave no trace; the others take effect together."""
        return self._serially(lambda: self._change(request))

    def validate(self, name: str, sql: str, *, file: str | None = None) -> Outcome:
        """What `submit` would do, without doing it; raises what is wrong."""
        return self._serially(lambda: self._validate(JobText(check_name(name), sql, file)))

    def rollback(self, name: str, version: int, origin: Origin = Origin.SDK, *, take_over: bool = False) -> Outcome:
        """Submits an old version again, as a new one."""
        old = self.log.version(name, version)
        return self.submit(name, old.sql, origin, file=old.file, take_over=take_over)

    def stop_job(self, name: str) -> Outcome:
        """Takes a job out of the graph; it stays, and its text."""
        return self._serially(lambda: self._stop(self.job(name), JobState.STOPPED, None))

    def start_job(self, name: str) -> Outcome:
        """Puts a stopped or failed job back, at the position that a new job has."""
        return self._serially(lambda: self._start(self.job(name)))

    def jobs(self) -> list[Job]:
        """All jobs by name."""
        return sorted(self.log.jobs.values(), key=lambda j: j.name)

    def job(self, name: str) -> Job:
        """One job; JobError if there is none."""
        if name not in self.log.jobs:
            raise JobError(f"job '{name}' does not exist", hint="'sql jobs' lists all")
        return self.log.jobs[name]

    def history(self, name: str) -> list[JobVersion]:
        """All versions of a job that is or was, oldest first."""
        if name not in self.log.versions:
            raise JobError(f"job '{name}' does not exist and never did")
        return [v for _, v in sorted(self.log.versions[name].items())]

    def explain(self, name: str) -> str:
        """The plan of a running version after every arrow, and what it shares with whom."""
        job = self.job(name)
        bound = bind_job(self._text(job), without(self.catalog, self._private({name})), self.config.settings)
        return explain_sinks(bound.plans, bound.disabled, self.graph.runner.graph, name)

    def explain_json(self, name: str) -> Json:
        """The same for programs."""
        job = self.job(name)
        bound = bind_job(self._text(job), without(self.catalog, self._private({name})), self.config.settings)
        return explain_sinks_json(bound.plans, bound.disabled, self.graph.runner.graph, name)

    def rows_by_job(self) -> Counter[str]:
        """Rows that each job has given to sinks since the server started."""
        return self.graph.executor.rows_by_job()

    def rows_of(self, name: str) -> int:
        return self.rows_by_job()[name]

    @property
    def ready(self) -> bool:
        return self.graph.loop.running and not self._closed.is_set()

    def now_ms(self) -> int:
        return self._clock()

    # ---- the way of a change -----------------------------------------------------------------------------------

    def _change(self, request: Request) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        wanted = self._wanted(request, outcomes)
        removes = self._removable(request, wanted, outcomes)
        renamed = self._renamed(request, outcomes)
        base = without(self.catalog, self._private(set(wanted) | removes))
        plans = plan_texts([*wanted.values(), *renamed.values()], base, self.config.settings)
        ready = self._sorted_out(request, {**wanted, **renamed}, plans, outcomes)
        old = self.graph.runner.graph
        kept = {new: old for old, new in request.renames.items() if new in ready}
        refused = self._deploy(request, ready, removes | set(kept.values()), kept)
        for name, plan in ready.items():
            outcomes[name] = refused.get(name) or self._outcome(name, plan, old, outcomes)
        for name in removes:
            outcomes[name] = Outcome(name, "removed")
        if ready or removes:
            self._retry_waiting(set(ready) | removes)
        return outcomes

    def _wanted(self, request: Request, outcomes: dict[str, Outcome]) -> dict[str, JobText]:
        wanted = {}
        for name, text in request.upserts.items():
            held = self.log.jobs.get(name)
            try:
                check_origin(check_name(name), held, request)
            except SqlError as error:
                outcomes[name] = Outcome(name, "refused", error=error)
                continue
            same = held is not None and self.log.version(name, held.version).sql == text.sql
            if held is not None and same and held.state in _LIVE and held.origin is request.origin:
                outcomes[name] = Outcome(name, "unchanged", held.version)
            else:
                wanted[name] = text
        return wanted

    def _removable(self, request: Request, wanted: Mapping[str, JobText], outcomes: dict[str, Outcome]) -> set[str]:
        removable = set()
        for name in request.removes:
            try:
                held = self.job(name)
                check_origin(name, held, request)
                going = {*request.removes, *wanted}
                check_in_use(defined_only_by(held, self.log.jobs.values()), self.jobs(), going, f"removing '{name}'")
                removable.add(name)
            except SqlError as error:
                outcomes[name] = Outcome(name, "refused", error=error)
        return removable

    def _renamed(self, request: Request, outcomes: dict[str, Outcome]) -> dict[str, JobText]:
        texts = {}
        for old, new in request.renames.items():
            if old in self.log.jobs and new not in self.log.jobs:
                version = self.log.version(old, self.log.jobs[old].version)
                texts[new] = JobText(new, version.sql, version.file)
        return texts

    def _private(self, jobs: Collection[str]) -> set[str]:
        """Objects that only the jobs of this change define and use: they may be defined anew."""
        names = {n for j in jobs if j in self.log.jobs for n in defined_only_by(self.log.jobs[j], self.jobs())}
        return {n for n in names if not any(n in j.uses for j in self.jobs() if j.name not in jobs)}

    def _sorted_out(
        self,
        request: Request,
        texts: Mapping[str, JobText],
        plans: Collection[PlannedJob | SqlError],
        outcomes: dict[str, Outcome],
    ) -> dict[str, PlannedJob]:
        ready: dict[str, PlannedJob] = {}
        waiting: dict[str, Job] = {}
        versions: dict[str, JobVersion] = {}
        for (name, text), plan in zip(texts.items(), plans, strict=True):
            if isinstance(plan, PlannedJob):
                ready[name] = plan
            elif isinstance(plan, UnknownObject) and request.origin is Origin.FOLDER and name not in self.log.jobs:
                versions[name] = version = self._version(text, request.origin)
                waiting[name] = Job(name, version.version, JobState.WAITING, request.origin, self._clock(), str(plan))
                outcomes[name] = Outcome(name, "waiting", version.version, plan)
            else:
                outcomes[name] = Outcome(name, "refused", error=plan)
        self.log.write(versions, waiting, self._clock())
        self._texts = dict(texts)
        return ready

    def _deploy(
        self, request: Request, ready: dict[str, PlannedJob], removes: Collection[str], renamed: Mapping[str, str]
    ) -> dict[str, Outcome]:
        """Merges, compiles, switches. Jobs that cannot be made to run are found by halving, and refused alone."""
        versions = {n: self._version(self._texts[n], request.origin) for n in ready}
        bad: dict[str, SqlError] = {}
        try:
            change = self._prepared(ready, versions, removes, renamed)
        except SqlError as error:
            bad = self._unfit(ready) or dict.fromkeys(ready, error)
            ready = {n: p for n, p in ready.items() if n not in bad}
            change = self._prepared(ready, versions, removes, renamed)
        kept = {n: versions[n] for n in ready}
        self.log.write(kept, {}, self._clock())
        if change is not None:
            self._switch(change)
        self._settle(request, ready, kept, removes)
        return {n: Outcome(n, "refused", error=e) for n, e in bad.items()}

    def _prepared(
        self,
        plans: Mapping[str, PlannedJob],
        versions: Mapping[str, JobVersion],
        removes: Collection[str],
        renamed: Mapping[str, str],
    ) -> GraphChange | None:
        """The change of the graph, compiled and connected; None when the graph stays as it is."""
        running = self.graph.runner.jobs
        numbers = {n: versions[n].version if p.sinks else 0 for n, p in plans.items() if p.sinks or n in running}
        numbers |= {n: 0 for n in removes if n in running}
        if not numbers:
            return None
        taken = {new: old for new, old in renamed.items() if numbers.get(new)}
        return self.graph.change(self.graph.runner.graph, plans, numbers, taken)

    def _switch(self, change: GraphChange) -> None:
        try:
            self.graph.loop.call(lambda: self.graph.runner.apply(change))
        except SqlError:
            change.abandon()
            raise
        self._rebuilder.look()

    def _unfit(self, plans: Mapping[str, PlannedJob]) -> dict[str, SqlError]:
        """Jobs that planning accepts and running does not (a pattern that cannot compile, a topic that is missing)."""
        runnable = {n: p for n, p in plans.items() if p.sinks}
        if not runnable:
            return {}
        try:
            self.graph.change(self.graph.runner.graph, runnable, dict.fromkeys(runnable, 1), {}).abandon()
            return {}
        except SqlError as error:
            if len(runnable) == 1:
                return {next(iter(runnable)): error}
        names = list(runnable)
        half = len(names) // 2
        parts = (names[:half], names[half:])
        return {n: e for part in parts for n, e in self._unfit({n: plans[n] for n in part}).items()}

    def _settle(
        self,
        request: Request,
        plans: Mapping[str, PlannedJob],
        versions: Mapping[str, JobVersion],
        removes: Collection[str],
    ) -> None:
        """Writes down what has taken effect, and the catalog that follows from it."""
        self.catalog = without(self.catalog, self._private(set(plans) | set(removes)))
        jobs = {}
        for name, plan in plans.items():
            self.catalog = with_objects(self.catalog, plan)
            state = JobState.RUNNING if plan.sinks else JobState.DEFINED
            jobs[name] = Job(
                name,
                versions[name].version,
                state,
                request.origin,
                self._clock(),
                defines=tuple(full_name(o.name) for o in plan.objects),
                uses=tuple(sorted(map(full_name, plan.uses))),
                settings=dict(plan.settings),
            )
        self.log.write({}, jobs, self._clock())
        for name in removes:
            self.log.remove(name, self._clock())
        self._failing -= set(plans) | set(removes)

    def _version(self, text: JobText, origin: Origin) -> JobVersion:
        number = self.log.next_version(text.name)
        return JobVersion(text.name, number, text.sql, origin, self._clock(), text.file)

    def _outcome(self, name: str, plan: PlannedJob, old: Graph, outcomes: Mapping[str, Outcome]) -> Outcome:
        job = self.log.jobs[name]
        status = "replaced" if name in old.jobs or job.version > 1 else "added"
        return Outcome(name, status, job.version, state=state_report(old, self.graph.runner.graph, name))

    def _validate(self, text: JobText) -> Outcome:
        base = without(self.catalog, self._private({text.name}))
        (plan,) = plan_texts([text], base, self.config.settings)
        if isinstance(plan, SqlError):
            raise plan
        for error in self._unfit({text.name: plan}).values():
            raise error
        old = self.graph.runner.graph
        new = merge(old, {text.name: plan.sinks or None})
        return Outcome(text.name, "valid", self.log.next_version(text.name), state=state_report(old, new, text.name))

    # ---- start, stop, failure ----------------------------------------------------------------------------------

    def _stop(self, job: Job, state: JobState, reason: str | None) -> Outcome:
        if job.name in self.graph.runner.jobs:
            self._switch(self.graph.change(self.graph.runner.graph, {}, {job.name: 0}, {}))
        self.log.write({}, {job.name: moved(job, state, self._clock(), reason)}, self._clock())
        return Outcome(job.name, state.value, job.version)

    def _start(self, job: Job) -> Outcome:
        if job.state in (JobState.RUNNING, JobState.DEFINED):
            return Outcome(job.name, "unchanged", job.version)
        plans = self._plans_of({job.name: job.version})
        self._switch(self.graph.change(self.graph.runner.graph, plans, {job.name: job.version}, {}))
        self._failing.discard(job.name)
        self.log.write({}, {job.name: moved(job, JobState.RUNNING, self._clock())}, self._clock())
        return Outcome(job.name, "started", job.version)

    def _on_failure(self, jobs: frozenset[str], reason: str) -> None:
        """Called by the graph's thread: the jobs at fault leave the graph, the others run on."""
        new = jobs - self._failing
        if new and not self._closed.is_set():
            self._failing |= new
            self._changes.submit(self._fail, new, reason)

    def _fail(self, names: frozenset[str], reason: str) -> None:
        for name in names & self.log.jobs.keys():
            log.error("job %s failed: %s", name, reason)
            self._stop(self.log.jobs[name], JobState.FAILED, reason)

    def _fails_on_error(self, owner: str) -> bool:
        job = self.log.jobs.get(owner)
        return job is not None and job.settings.get("job.on-error") == "fail"

    def _retry_waiting(self, changed: Collection[str]) -> None:
        waiting = [j for j in self.log.jobs.values() if j.state is JobState.WAITING and j.name not in changed]
        if waiting and any(self.log.jobs[n].defines for n in changed if n in self.log.jobs):
            self._change(Request(Origin.FOLDER, {j.name: self._text(j) for j in waiting}))

    def _text(self, job: Job) -> JobText:
        version = self.log.version(job.name, job.version)
        return JobText(job.name, version.sql, version.file)

    # ---- recovery ----------------------------------------------------------------------------------------------

    def _replan(self) -> None:
        """Plans all jobs as they were, which gives the catalog; their plans are kept until the graphs are restored."""
        jobs = [j for j in self.jobs() if j.state in _LIVE]
        texts = [self._text(j) for j in jobs]
        for job, plan in zip(jobs, plan_texts(texts, Catalog(), self.config.settings), strict=True):
            if isinstance(plan, SqlError):
                log.error("job %s cannot be planned any more: %s", job.name, plan)
                continue
            self.catalog = with_objects(self.catalog, plan)
            self._plans[job.name, job.version] = plan

    def _plans_of(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob]:
        """Plans of some versions of jobs, from the log's texts."""
        missing = [(n, v) for n, v in jobs.items() if (n, v) not in self._plans]
        texts = [JobText(n, t.sql, t.file) for n, v in missing for t in [self.log.version(n, v)]]
        base = without(self.catalog, self._private(set(jobs)))
        found = {n: self._plans[n, v] for n, v in jobs.items() if (n, v) in self._plans}
        for text, plan in zip(texts, plan_texts(texts, base, self.config.settings), strict=True):
            if isinstance(plan, SqlError):
                raise plan
            found[text.name] = plan
        return found

    def _reconcile(self) -> None:
        """The graph is the truth about what runs: a crash may have come between the switch and the log's entry."""
        changed = {}
        for job in self.jobs():
            version = self.graph.runner.jobs.get(job.name)
            if version is not None and (job.state is not JobState.RUNNING or job.version != version):
                changed[job.name] = replace(moved(job, JobState.RUNNING, self._clock()), version=version)
            elif version is None and job.state is JobState.RUNNING:
                changed[job.name] = moved(job, JobState.STOPPED, self._clock(), "the server died while it started")
        self.log.write({}, changed, self._clock())

    def _serially(self, work: Callable[[], T]) -> T:
        return self._changes.submit(work).result()


def _raised(outcome: Outcome) -> Outcome:
    if outcome.status == "refused" and outcome.error is not None:
        raise outcome.error
    return outcome
