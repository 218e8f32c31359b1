"""The execution of a statement of Flink's SQL Gateway: one at a time, with jobs by their ids, and
statement sets that are sent piece by piece."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from parser.errors import ParseError, PlanError, Position, UnsupportedError
from parser.limits import present
from parser.statements import (
    Describe,
    Explain,
    Insert,
    Show,
    ShowCreate,
    Statement,
    StatementSet,
    StopJob,
)
from parser.statements import Query as Select
from planner.catalog import Catalog
from sqlengine.api.gateway.session import GatewaySession
from sqlengine.engine import Engine
from sqlengine.engine.statements import Answer
from sqlengine.queries.ad_hoc import AdHocSession
from sqlengine.queries.client_session import ClientSession
from sqlengine.queries.execution import PATIENCE_S, Execution, Slot
from sqlengine.queries.insert_jobs import job_id, submit, wait_for_end
from sqlengine.queries.query import Query

_BEGIN: Final = re.compile(r"\s*+BEGIN\s++STATEMENT\s++SET\s*+;?\s*+", re.IGNORECASE)
_END: Final = re.compile(r"\s*+END\s*+;?\s*+", re.IGNORECASE)
_GIVES_ROWS: Final = (Select, Insert, StatementSet, Show, ShowCreate, Describe, Explain)


class GatewayExecution(Execution):
    """Runs one statement of a session. `settings`: those that it has besides the session's."""

    session_class: ClassVar[type[AdHocSession]] = GatewaySession
    in_slots: ClassVar[tuple[type[Statement], ...]] = (Select, Insert, StatementSet)
    patience_s: ClassVar[float] = PATIENCE_S

    def __init__(
        self,
        engine: Engine,
        query: Query,
        state: ClientSession,
        slot: Slot,
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(engine, query, state, slot)
        self._settings = settings
        self._given: Mapping[str, str] = {}

    def statements(self) -> Sequence[Statement]:
        """Returns the one statement; none for those that begin a statement set or add to it."""
        state, sql = self._state, self._query.sql
        if _BEGIN.fullmatch(sql):
            if state.pending is not None:
                raise PlanError("a statement set has begun already", hint="END; runs it")
            state.pending = ()
            return ()
        if state.pending is None:
            return _one(self.parsed(sql))
        if not _END.fullmatch(sql):
            (statement,) = _one(self.parsed(sql))
            if not isinstance(statement, Insert):
                raise UnsupportedError(
                    "only INSERT may stand in a statement set",
                    hint="END; runs what it has",
                    position=statement.position,
                )
            added = _added(state.pending, sql)
            state.check_room(replace(state, pending=added))
            state.pending = added
            return ()
        texts, state.pending = state.pending, None
        if not texts:
            raise PlanError("the statement set has no INSERT", hint="begin another one")
        inserts = tuple(s for text in texts for s in self.parsed(text) if isinstance(s, Insert))
        return (StatementSet(inserts=inserts, position=inserts[0].position),)

    def _ad_hoc(self, query: Query, state: ClientSession, shared: Catalog) -> AdHocSession:
        told = replace(state, settings={**state.settings, **self._settings})
        session = super()._ad_hoc(query, told, shared)
        assert isinstance(session, GatewaySession)
        session.shared, session.told = shared, told.settings
        session.submit = partial(submit, self._engine, by=query.by)
        session.wait = partial(wait_for_end, self._engine, query=query)
        self._given = dict(session.settings)
        return session

    def _keep(self, session: AdHocSession, shared: Catalog) -> None:
        """Keeps of the settings what the statement itself has changed."""
        given, settings = self._given, self._state.settings
        changed = {k: v for k, v in session.settings.items() if given.get(k) != v}
        reset = given.keys() - session.settings.keys()
        session.settings = {k: v for k, v in settings.items() if k not in reset} | changed
        super()._keep(session, shared)

    def _about_jobs(self, statement: Statement, settings: Mapping[str, str]) -> Answer | None:
        if isinstance(statement, StopJob):
            names = {job_id(job.name): job.name for job in self._engine.jobs()}
            statement = replace(statement, job=names.get(statement.job, statement.job))
        answer = super()._about_jobs(statement, settings)
        if answer is None or answer.columns[0] != "job id":
            return answer
        return replace(answer, rows=tuple((job_id(str(row[1])), *row[1:]) for row in answer.rows))


class ConfiguringExecution(GatewayExecution):
    """Runs a statement that changes its session, and gives no rows."""

    def statements(self) -> Sequence[Statement]:
        """See `GatewayExecution`. UnsupportedError for a statement that changes no session."""
        found = super().statements()
        for statement in found:
            if isinstance(statement, _GIVES_ROWS):
                raise UnsupportedError(
                    "this statement configures no session",
                    hint="SET, RESET, USE, CREATE, ALTER, DROP and modules do",
                    position=statement.position,
                )
        return found


def _added(texts: tuple[str, ...], sql: str) -> tuple[str, ...]:
    """Returns the texts of a statement set with one more. PlanError beyond what a job may have."""
    most = present().text_size
    if sum(map(len, texts)) + len(sql) > most:
        raise PlanError(
            f"the statement set has more than {most:,} characters ('text-size')",
            hint="END; runs what it has",
        )
    return (*texts, sql)


def _one(statements: Sequence[Statement]) -> Sequence[Statement]:
    if not statements:
        raise ParseError("there is no statement", position=Position(1, 1))
    if len(statements) > 1:
        raise UnsupportedError(
            "one statement is executed at a time",
            hint="send one after the other",
            position=statements[1].position,
        )
    return statements
