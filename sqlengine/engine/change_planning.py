"""Plans the jobs of a request, and with them the jobs that use what these define differently.

A definition and the jobs that use it change together, or not at all. A refusal may affect others: a
job whose new text is refused runs on with its old one, over what it defined. So planning begins
anew without what was refused, until nothing more is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from parser.canary import canary_of
from parser.errors import JobError, ObjectExists, SqlError, UnknownObject
from planner.graph.takeover import JOB_STATE, Policy
from planner.graph.takeover import Outcome as StateOutcome
from planner.rule_settings import rule_in
from sqlengine.access.plans import may_see_savepoint
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.catalog.changes import full_name
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.permissions import Permissions
from sqlengine.engine.requests import Outcome, Request, changed_objects, in_use
from sqlengine.engine.savepoints import Savepoints, path_in
from sqlengine.engine.shadows.fates import fates
from sqlengine.engine.work import Work
from sqlengine.executors.replays import statements_of
from sqlengine.jobs.job import AT_REST, Job, JobState, Origin
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.registry import Registry

_PLANNED = "change these jobs in the same request ('sql submit FOLDER'), or remove them first"
_KEPT = (
    "name these jobs in the same request to accept it ('sql submit FOLDER'), or set 'job.state' ="
    " 'keep' or 'reset' in them"
)
_LOSES = (StateOutcome.RESET, StateOutcome.DROPPED)


class ChangePlanner:
    """Plans changes, in the thread that makes them."""

    def __init__(self, registry: Registry, graphs: GraphManager, savepoints: Savepoints) -> None:
        self._registry = registry
        self._graphs = graphs
        self._savepoints = savepoints
        self.permissions = Permissions(registry, graphs.tables)

    def plan(self, work: Work) -> None:
        """Plans what is not refused yet. Afterwards each job is in `work.ready`, or has an
        outcome."""
        while not self._attempt(work):
            pass
        work.fates |= fates(work, self._registry.log.jobs)

    def accept(self, work: Work, refused_before: frozenset[str]) -> bool:
        """Looks at a change that is prepared. False if it has to be planned again, since jobs were
        refused on which others may depend, or jobs that use a definition would not run on."""
        if work.failing:
            self._refuse_causes(work, work.failing, _PLANNED)
            return False
        losing = {n: e for n in work.dependents if (e := self._loss(work, n)) is not None}
        if losing:
            self._refuse_causes(work, losing, _KEPT)
            return False
        return not any(self._matters(work, n) for n in work.refused - refused_before)

    # ---- one attempt -----------------------------------------------------------------------------

    def _attempt(self, work: Work) -> bool:
        """Plans all that is not refused; False if that has refused something on which others may
        depend."""
        work.begin()
        owned = self.permissions.owned()
        texts = {n: t for n, t in work.texts.items() if n not in work.outcomes}
        plans = self._plan_with_dependents(work, texts)
        for name, text in texts.items():
            self._take(work, text, plans[name], owned)
        if any(self._matters(work, n) for n in texts if n not in work.ready):
            return False
        failing = {n: p for n in work.dependents if isinstance(p := plans[n], SqlError)}
        failing = {n: e for n, e in failing.items() if not self._was_broken(n)}
        if failing:
            self._refuse_causes(work, failing, _PLANNED)
            return False
        for name in list(work.dependents):
            self._sort(work, name, plans[name])
        return True

    def _plan_with_dependents(
        self, work: Work, texts: Mapping[str, JobText]
    ) -> dict[str, PlannedJob | SqlError]:
        """Plans texts, and the jobs that use what they define differently or no longer, and those
        that use what these define."""
        registry, found = self._registry, work.dependents
        while True:
            old_names = {old for new, old in work.kept.items() if new in texts}
            touched = {*texts, *work.removes, *old_names, *found}
            batch = {**texts, **found}
            made = dict(zip(batch, registry.plan(batch.values(), touched), strict=True))
            plans = self.permissions.permitted(work.request, batch, made)
            work.causes = self._causes(work, texts, plans, touched)
            users = [
                j
                for j in (registry.jobs() if work.causes else ())
                if j.name not in touched
                and not is_shadow(j.name)
                and j.state is not JobState.WAITING
                and not work.causes.keys().isdisjoint(j.uses)
            ]
            if not users:
                return plans
            found |= {j.name: registry.text(j) for j in users}

    def _causes(
        self,
        work: Work,
        texts: Mapping[str, JobText],
        plans: Mapping[str, PlannedJob | SqlError],
        touched: Iterable[str],
    ) -> dict[str, set[str]]:
        """Returns the objects that are defined differently or no longer, each with the names of the
        request that cause it."""
        jobs, causes = self._registry.log.jobs, dict[str, set[str]]()
        good = {n: p for n, p in plans.items() if isinstance(p, PlannedJob)}
        lost = self._registry.private_objects({*touched})
        lost -= {full_name(o.name) for plan in good.values() for o in plan.objects}
        new_names = {old: new for new, old in work.kept.items()}
        for name in touched:
            for item in lost.intersection(jobs[name].defines if name in jobs else ()):
                causes.setdefault(item, set()).add(new_names.get(name, name))
        for name, plan in good.items():  # dependents come behind what they depend on
            by = {name} if name in texts else self._causes_of(causes, name)
            for item in changed_objects(self._registry.catalog, plan):
                causes.setdefault(item, set()).update(by)
        return causes

    def _causes_of(self, causes: Mapping[str, set[str]], name: str) -> set[str]:
        uses = self._registry.log.jobs[name].uses
        return set[str]().union(*(causes[o] for o in uses if o in causes))

    def _take(
        self, work: Work, text: JobText, plan: PlannedJob | SqlError, owned: Counter[str]
    ) -> None:
        """Takes the plan of a text of the request, or its refusal. `owned`: jobs by principal,
        to which it adds one."""
        name = text.name
        if isinstance(plan, PlannedJob):
            try:
                self._check_shadow(work, plan)
                self.permissions.check_number(work, name, owned)
                self._resolve_savepoint(work, name, plan)
                work.ready[name] = plan
            except SqlError as error:
                work.refuse(name, error)
        elif isinstance(plan, UnknownObject) and self._may_wait(work.request, name):
            self._add_waiting(work, text, plan)
        else:
            work.refuse(name, self._with_definers(name, plan))

    def _check_shadow(self, work: Work, plan: PlannedJob) -> None:
        """Raises JobError for a shadow that would define what no job does, and for one without a
        live version whose canary compares it with that."""
        if not is_shadow(plan.name):
            return
        rule = rule_in(plan.settings)
        alone = not self._registry.versions.beside(plan.name, work.texts)
        if alone and rule is not None and rule.canary and canary_of(rule.canary).ratio:
            raise JobError(
                f"job '{rule_of(plan.name)}' has no live version to compare with",
                detail=f"'canary: {rule.canary}' counts its rows",
                hint="write a number, as in 'max-rate 100/h', or leave it out",
            )
        known = {o.name for p in work.ready.values() for o in p.objects}
        known |= self._registry.catalog.objects.keys()
        own = [o.name for o in plan.objects if o.name not in known]
        if own:
            raise JobError(
                f"a shadow cannot define '{own[0][2]}'",
                detail="it is withdrawn one day, and others may use it until then",
                hint="define it in a text of its own (_tables.sql), or write CREATE TEMPORARY",
            )

    def _sort(self, work: Work, name: str, plan: PlannedJob | SqlError) -> None:
        """Sorts a job that uses a changed definition: it stays as it is, or is planned anew. One
        that does not run stays: it goes on where it was, over what it kept."""
        job = self._registry.log.jobs[name]
        runs = job.state in (JobState.RUNNING, *AT_REST)
        if runs and isinstance(plan, PlannedJob) and not self._is_same(job, plan):
            work.ready[name] = plan
            return
        del work.dependents[name]
        work.unchanged.add(name)
        if not runs:
            work.dormant.add(name)

    def _is_same(self, job: Job, plan: PlannedJob) -> bool:
        """True if the job's new plan and definitions are the present ones."""
        if changed_objects(self._registry.catalog, plan):
            return False
        graph = self._graphs.of(job.name)
        present = [s.digest for s in statements_of(graph.runner.graph, job.name)]
        return not graph.distributed and sorted(present) == sorted(s.digest for s in plan.sinks)

    # ---- refusals --------------------------------------------------------------------------------

    def _matters(self, work: Work, name: str) -> bool:
        """True if the refusal of a text may change what other jobs are planned over."""
        jobs = self._registry.log.jobs
        job = jobs.get(work.kept.get(name, name))
        if is_shadow(name) or shadow_of(name) in jobs:  # the shadow that is there goes on
            return True
        if job is None:
            return False
        return bool(job.defines) or not work.causes.keys().isdisjoint(job.uses)

    def _was_broken(self, name: str) -> bool:
        """True if a job that does not run could not be planned before either."""
        job = self._registry.log.jobs[name]
        if job.state in (JobState.RUNNING, *AT_REST):
            return False
        (plan,) = self._registry.plan([self._registry.text(job)], {name})
        return isinstance(plan, SqlError)

    def _loss(self, work: Work, name: str) -> SqlError | None:
        """Returns the error of a job that would lose state without anybody having asked for it."""
        plan = work.ready.get(name)
        accepted = plan is None or plan.settings.get(JOB_STATE, "").lower() == Policy.RESET
        if accepted or name in work.request.upserts:
            return None
        for state in work.reports.get(name, ()):
            if state.outcome in _LOSES:
                return JobError(f"the state of '{state.operator}' would be lost: {state.reason}")
        return None

    def _refuse_causes(self, work: Work, failing: Mapping[str, SqlError], hint: str) -> None:
        """Refuses what makes jobs fail that use its definitions, and all texts of the request that
        are planned over these."""
        by_cause: dict[str, dict[str, SqlError]] = {}
        for name, error in failing.items():
            for cause in work.blamed(self._registry.log.jobs[name].uses):
                by_cause.setdefault(cause, {})[name] = error
        for cause, errors in by_cause.items():
            items = {item for item, names in work.causes.items() if cause in names}
            used = {o for name in errors for o in self._registry.log.jobs[name].uses} & items
            error = in_use(used, errors, self._same_name(work, cause) or hint)
            over = [n for n, p in work.ready.items() if items & set(map(full_name, p.uses))]
            for name in dict.fromkeys((cause, *over)):
                if name not in work.dependents:
                    work.refuse(name, error)
            work.removes.discard(cause)

    def _same_name(self, work: Work, name: str) -> str | None:
        """Returns a hint where the text of a job comes from a file of another folder than before:
        two files of one name, as '_tables.sql' is, are most likely meant as two jobs."""
        job, text = self._registry.log.jobs.get(name), work.texts.get(name)
        old = None if job is None else self._registry.version(job).file
        if old is None or text is None or text.file is None or old == text.file:
            return None
        return (
            f"'{old}' is job '{name}' already, and '{text.file}' would take its place: to have"
            " both, remove the first folder's jobs, put a '_tables.sql' into the folder above"
            " both, and submit that: jobs have the names of their folders below it"
        )

    def _with_definers(self, name: str, error: SqlError) -> SqlError:
        """Returns the error; where a definition exists already, one that names the jobs that have
        it."""
        if not isinstance(error, ObjectExists) or error.detail is None:
            return error
        item = error.detail
        others = [j.name for j in self._registry.jobs() if item in j.defines and j.name != name]
        if not others:
            return error
        return JobError(
            f"'{item.rsplit('.', 1)[-1]}' is defined by {', '.join(others[:5])}",
            detail="this text defines it differently",
            hint="change all texts that define it in one request ('sql submit FOLDER'), or use"
            " CREATE TEMPORARY for a private one",
        ).at(error.position)

    # ---- texts of the request --------------------------------------------------------------------

    def _resolve_savepoint(self, work: Work, name: str, plan: PlannedJob) -> None:
        """Sets the savepoint that a job starts from, given with the request or in the text.

        A running job cannot start from one; the one that it came from may stay in its text.
        """
        given, in_text = work.request.savepoints.get(name), path_in(plan.settings)
        path = in_text if given is None else given
        if is_shadow(name) and given is not None:
            raise JobError(
                "a shadow starts from no savepoint",
                detail="it begins with the state of the live version beside it",
            )
        if name in work.kept or path is None or is_shadow(name) or work.texts[name].promotes:
            return
        if self._graphs.runs(name):
            if given is not None or in_text != path_in(self._registry.job(name).settings):
                raise already_running(name)
            return
        by = work.request.principal(name)
        if not by.is_admin:
            may_see_savepoint(by, self._savepoints.show(path).job)
        work.restores[name] = str(self._savepoints.locate(path))

    def _may_wait(self, request: Request, name: str) -> bool:
        job = self._registry.log.jobs.get(name)
        return request.origin is Origin.FOLDER and (job is None or job.state is JobState.WAITING)

    def _add_waiting(self, work: Work, text: JobText, missing: SqlError) -> None:
        registry, existing = self._registry, self._registry.log.jobs.get(text.name)
        if existing is not None and registry.text(existing).sql == text.sql:
            work.outcomes[text.name] = Outcome(text.name, "waiting", existing.version, missing)
            return
        version = registry.versions.next(text, work.request.origin)
        job = Job(
            text.name,
            version.version,
            JobState.WAITING,
            version.origin,
            version.created_ms,
            str(missing),
        )
        if not work.request.dry_run:
            registry.sealing.defer(text, version.version)
            registry.log.add_waiting(version, job, registry.clock())
        work.outcomes[text.name] = Outcome(text.name, "waiting", version.version, missing)


def already_running(name: str) -> JobError:
    return JobError(
        f"job '{name}' runs: it cannot start from a savepoint",
        hint="stop it first ('sql stop'), or leave the savepoint out to go on from where it is",
    )
