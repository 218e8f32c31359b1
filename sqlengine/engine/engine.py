"""The engine: jobs come, change and go while the graphs run.

Every change takes the same steps, whoever asks for it:

    text -> parse -> bind -> optimize -> merge (into the graph) -> lower -> prepare (compile) ->
    switch (between two epochs)

All but the switch is done by one thread beside the stream (`job_changes.py`, `deploying/`,
`job_lifecycle.py`), one change after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from parser.errors import Position, SqlError
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.config import Target
from sqlengine.engine.dead_letters import DeadLetter
from sqlengine.engine.expected_versions import Expected
from sqlengine.engine.replaying import MAX_LETTERS, Replayed
from sqlengine.engine.requests import Outcome, Request
from sqlengine.engine.sealed_requests import sealed_request
from sqlengine.engine.shadows.promotion import shadow_job
from sqlengine.engine.views.engine_views import EngineViews
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.sealing import shown
from sqlengine.jobs.targets import TARGET
from sqlengine.jobs.workers import INLINE
from sqlengine.registry import text_of
from sqlengine.system.memory import settle


class Engine(EngineViews):
    """Runs jobs over one data folder: jobs come, change and go while the graphs run.

    All methods may be called from any thread. Those that change jobs raise the SqlError of what is
    refused. See `AssembledEngine` for how it is opened, `EngineViews` for what it tells."""

    def submit(
        self,
        name: str,
        sql: str,
        origin: Origin = Origin.SDK,
        *,
        file: str | None = None,
        savepoint: str | None = None,
        target: Target | None = None,
        by: Principal = TRUSTED,
    ) -> Outcome:
        """Adds or replaces a job, which starts from a savepoint if one is given, and runs on
        `target`, whatever its text says, if that is.

        Raises the SqlError of a text that is refused; the old version runs on.
        """
        request = Request(
            origin,
            {name: JobText(name, sql, file)},
            savepoints={} if savepoint is None else {name: savepoint},
            targets={} if target is None else {name: target},
            by=by,
        )
        return _raised(self.change(request)[name])

    def remove(self, name: str, origin: Origin = Origin.SDK) -> Outcome:
        """Removes a job and its state. Its versions stay in the history."""
        return _raised(self.change(Request(origin, removes=frozenset({name})))[name])

    def change(self, request: Request) -> dict[str, Outcome]:
        """Makes a change of many jobs. Refused ones leave no trace; the others take effect
        together."""
        with sealed_request(self._registry, request.signed()) as sealed:
            return sealed.told(self._make(sealed.request))

    def _make(self, request: Request) -> dict[str, Outcome]:
        if "spark" in request.targets.values() or any(
            TARGET in text.sql and "spark" in text.sql for text in request.upserts.values()
        ):
            with suppress(SqlError):  # who needs it is told so in turn
                self._spark.session()
        for name, text in request.upserts.items():
            self._registry.plan_ahead(text, {name})
        try:
            with self._steps.leaving(self._changes.removable(request)):
                outcomes = self._thread.change(self._changes.change, request)
        finally:
            self._registry.planner.forget_ahead(request.upserts)
        if len(outcomes) > INLINE:
            settle()
        self._failures.forget(() if request.dry_run else outcomes)
        return outcomes

    def validate(
        self,
        name: str,
        sql: str,
        origin: Origin = Origin.SDK,
        *,
        file: str | None = None,
    ) -> Outcome:
        """Returns what `submit` would do, without doing it. Raises the SqlError of a refusal."""
        request = Request(origin, {name: JobText(name, sql, file)}, dry_run=True)
        return _raised(self.change(request)[name])

    def sealed_form(self, text: str) -> str:
        """Returns a text of a job as the log keeps it: with marks in the place of passwords."""
        return self._registry.sealing.form(text)

    def rollback(
        self,
        name: str,
        version: int,
        origin: Origin = Origin.SDK,
        by: Principal = TRUSTED,
        *,
        dry_run: bool = False,
        expected: Expected | None = None,
    ) -> Outcome:
        """Submits an old version again, as a new one that is live, with the users' modules that it
        had. A rule has its versions together with its shadows. `expected`: the version that the job
        must have now."""
        rule = rule_of(name)
        texts = {rule: text_of(self.log.version(rule, version))}
        wanted = {} if expected is None else {rule: expected}
        request = Request(origin, texts, by=by, live=True, dry_run=dry_run, expected=wanted)
        return _raised(self.change(request)[rule])

    def promote(
        self,
        name: str,
        origin: Origin = Origin.SDK,
        by: Principal = TRUSTED,
        reason: str = "",
        *,
        dry_run: bool = False,
        expected: Expected | None = None,
    ) -> Outcome:
        """Lets the shadow of a rule take the place of its live version, with its state. `reason`:
        what the history says of it, if not who asked; `expected`: the version that the rule must
        have now."""
        rule = rule_of(name)
        live = self.log.jobs.get(rule)
        if live and shadow_of(rule) not in self.log.jobs and self._registry.version(live).fate:
            return Outcome(rule, "unchanged", live.version)  # it is asked again
        shadow = shadow_job(rule, self.log.jobs)
        text = text_of(self.log.version(rule, shadow.version))
        texts = {rule: replace(text, promotes=shadow.version)}
        wanted = {} if expected is None else {rule: expected}
        request = Request(origin, texts, by=by, reason=reason, dry_run=dry_run, expected=wanted)
        return _raised(self.change(request)[rule])

    def stop_job(self, name: str) -> Outcome:
        """Stops a job: it leaves its graph, and stays in the registry with its text."""
        with self._steps.leaving((name,)), self._failures.stopping(name):
            return self._thread.run(lambda: self._lifecycle.stop(self.job(name)))

    def save_job(self, name: str, folder: str | None = None, *, stop: bool = False) -> Outcome:
        """Writes a savepoint of a running job, below `folder` or where the settings say; with
        `stop` the job stops with it."""
        return self._thread.run(lambda: self._lifecycle.save(name, folder, stop=stop))

    def save_prepared(self, name: str, folder: str | None = None) -> Outcome:
        """Returns what a savepoint of a job would come to, without writing it."""
        return self._thread.run(lambda: self._lifecycle.save_prepared(name, folder))

    def drain_job(self, name: str, folder: str | None = None) -> Outcome:
        """Drains a running job: its sources end, all its windows fire, and it stops with a
        savepoint below `folder` or where the settings say."""
        return self._thread.run(lambda: self._lifecycle.drain(name, folder))

    def start_job(
        self,
        name: str,
        savepoint: str | None = None,
        begin: str | int | None = None,
        by: Principal = TRUSTED,
    ) -> Outcome:
        """Starts a stopped or failed job: from a savepoint, else where it was; with `begin` as a
        new job, at its 'configured' offsets, or those of 'earliest', 'latest' or a time (ms)."""

        def start() -> Outcome:
            self._changes.check_start(self.job(name), by)
            return self._lifecycle.start(self.job(name), savepoint, begin)

        self._failures.forget([name])
        return self._thread.run(start)

    def isolate(self, name: str) -> Outcome:
        """Moves a job with its state into a graph of its own, where it stays until it is merged."""
        return self._thread.run(lambda: self._moves.isolate(name))

    def move(self, name: str, target: str) -> Outcome:
        """Moves a job with its state to 'embedded' or 'spark', where it stays over new versions
        whose texts say nothing else."""
        if target == "spark":
            self._spark.session()  # here, as it takes long: other changes do not wait for it
        return self._thread.run(lambda: self._moves.move(name, target))

    def merge(self, name: str) -> Outcome:
        """Moves a job with its state into the shared graph, once both have read to the same
        offsets."""
        return self._thread.run(lambda: self._moves.merge(name))

    def reload_lookups(self, name: str) -> list[str]:
        """Has the tables read again in which a job looks rows up and that are held as a whole,
        beside the stream; returns their names. JobError where there is no such job."""
        return self.progress.reload_lookups(self.job(name))

    def replay(
        self,
        name: str,
        ids: Sequence[int] | None = None,
        limit: int = MAX_LETTERS,
        *,
        dry_run: bool = False,
    ) -> Replayed:
        """Replays the records of a job's dead letters (all, or some by number), once each; in a
        `dry_run` tells which."""
        return self._thread.run(lambda: self._replays.replay(name, ids, limit, dry_run=dry_run))

    def statement_of(self, letter: DeadLetter) -> tuple[Position | None, str | None]:
        """Returns the position of the expression that a letter names, in the text of the job's
        version as it is shown, and that text; None for the letter of a table."""
        version = self.log.versions_of(letter.job).get(letter.version)
        if version is None:
            return None, None
        position = self._thread.run(lambda: self._replays.position_of(letter))
        return shown(version.sql, position)


def _raised(outcome: Outcome) -> Outcome:
    if outcome.status == "refused" and outcome.error is not None:
        raise outcome.error
    return outcome
