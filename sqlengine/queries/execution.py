"""The statements of a request in the thread that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, TypeAlias

from parser import parse
from parser.errors import ExecutionError, ParseError, Position, SqlError, UnsupportedError
from parser.statements import Describe, Explain, Show, ShowCreate, Statement, StopJob
from parser.statements import Query as Select
from parser.types import STRING, Column, Schema
from planner.catalog import Catalog
from sqlengine.batch import from_pydict
from sqlengine.connectors.environment import Environment
from sqlengine.engine import Engine
from sqlengine.engine.statements import Answer, list_jobs, stop_job
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.memory_limits import LIMIT, MemoryExceeded, memory_limit
from sqlengine.jobs.unknown_options import UnknownOptions
from sqlengine.queries.ad_hoc import AdHocSession, BufferOutput
from sqlengine.queries.client_session import ClientSession
from sqlengine.queries.query import TURN_S, Query, QueryEnded, TooManyQueries
from sqlengine.queries.results import BUFFERED_BYTES
from sqlengine.session.runner import SCRIPT, EmbeddedRunner
from sqlengine.session.session import Planning, planned_here

# Held while a query runs; the seconds for which it waits until one more may run.
Slot: TypeAlias = Callable[[float], AbstractContextManager[None]]
# A statement of a driver, or of Flink's gateway, waits so long.
PATIENCE_S: Final = 30.0


class Execution:
    """The statements of one request. `slot`: held while a query runs, of which there may be so many
    at once; `follow`: it goes on with rows that come later.

    `session_class` executes each of them, `in_slots` are the statements that take a slot, for which
    they wait `patience_s`. `planning` parses and plans."""

    session_class: ClassVar[type[AdHocSession]] = AdHocSession
    in_slots: ClassVar[tuple[type[Statement], ...]] = (Select,)
    patience_s: ClassVar[float] = 0.0

    def __init__(
        self,
        engine: Engine,
        query: Query,
        state: ClientSession,
        slot: Slot,
        *,
        follow: bool = False,
    ) -> None:
        self._engine = engine
        self._query = query
        self._state = state
        self._slot = slot
        self._follow = follow
        self.planning: Planning = planned_here

    def run(self) -> None:
        """Runs the statements. Raises the SqlError of the first that fails, with its position."""
        for statement in self.statements():
            self._execute(statement)
        if self._query.buffer.schema is None:
            self._query.buffer.complete(message="OK")

    def statements(self) -> Sequence[Statement]:
        """Returns what is to be executed."""
        return _checked(self.parsed(self._query.sql))

    def parsed(self, text: str) -> list[Statement]:
        """Returns the statements of a text."""
        return self.planning(lambda: parse(text))

    def _execute(self, statement: Statement) -> None:
        query, shared = self._query, self._engine.catalog
        session = self._ad_hoc(query, self._state, shared)
        try:
            answer = self._about_jobs(statement, session.settings)
            if answer is not None:
                _put(query, answer)
            elif self._takes_slot(statement):
                with self._slot(self.patience_s):
                    session.execute(0, statement)
            else:
                session.execute(0, statement)
                self._keep(session, shared)
            session.settle()
        except (QueryEnded, TooManyQueries):
            raise
        except StepEnded:
            query.check()  # says why, unless the client has stopped it
        except MemoryExceeded as error:
            raise _too_large(error) from None
        except SqlError as error:
            raise error.at(statement.position) from None

    def _takes_slot(self, statement: Statement) -> bool:
        return isinstance(statement, self.in_slots)

    def _keep(self, session: AdHocSession, shared: Catalog) -> None:
        self._state.keep(session, shared)

    def _about_jobs(self, statement: Statement, settings: Mapping[str, str]) -> Answer | None:
        if isinstance(statement, StopJob):
            return stop_job(self._engine, statement, settings, self._query.by)
        if isinstance(statement, Show) and statement.what == "JOBS":
            return list_jobs(self._engine, self._query.by)
        return None

    def _ad_hoc(self, query: Query, state: ClientSession, shared: Catalog) -> AdHocSession:
        engine = self._engine
        files = engine.config.file_access
        name = f"query-{query.identity}"
        environment = Environment(
            engine.broker,
            engine.now_ms,
            name,
            memory=engine.memory,
            files=files,
            network=engine.config.network_access,
            secrets=engine.config.secret_values,
            receivers=engine.receivers,
            once=False,  # nothing repeats an epoch of it, so no table needs to know its writer
        )
        runner = EmbeddedRunner(
            environment,
            OperatorFactory(
                engine.config.rules,
                any_times=True,
                asker=lambda scan: TableAsker(scan, environment),
            ),
            engine.config.queries.rows_per_read,
            lambda: _idle(engine),
            dead_letters=query.set_aside,
            guard=query.guard,
            epoch_bytes=BUFFERED_BYTES,
        )
        session = self.session_class(
            runner,
            BufferOutput(query.buffer),
            state.place_in(shared),
            self._within_memory(state.settings),
            engine.library,
            state.modules,
            options=UnknownOptions(query.warnings.append),
            buffer=query.buffer,
            follow=self._follow,
            by=query.by,
            give=query.give,
            planning=self.planning,
        )
        runner.proceed = lambda rows: query.proceed(rows, complete=session.complete)
        return session

    def _within_memory(self, settings: Mapping[str, str]) -> dict[str, str]:
        most = self._engine.config.queries.memory
        asked = memory_limit(settings) if LIMIT in settings else most
        return {**settings, LIMIT: f"{min(asked, most)}b"}


def _too_large(error: MemoryExceeded) -> ExecutionError:
    """Returns the error of a query with too much state, in its own words."""
    message, detail = (
        t.replace(f"job '{SCRIPT}'", "the query") for t in (error.message, error.detail or "")
    )
    hint = "let it keep less: a WHERE, fewer columns, a window; or submit it as a job"
    return ExecutionError(message, detail=detail, hint=hint)


def _idle(engine: Engine) -> None:
    engine.broker.wait_for_data(TURN_S)


def _checked(statements: Sequence[Statement]) -> Sequence[Statement]:
    """Returns the statements, of which only the last may give rows."""
    if not statements:
        raise ParseError("there is no statement", position=Position(1, 1))
    for statement in statements[:-1]:
        if isinstance(statement, Select | Explain | Show | ShowCreate | Describe):
            raise UnsupportedError(
                "only the last statement of a request may give rows",
                hint="send one query after the other, as 'sql shell' does",
                position=statement.position,
            )
    return statements


def _put(query: Query, answer: Answer) -> None:
    schema = Schema(tuple(Column(name, STRING) for name in answer.columns))
    columns = list(zip(*answer.rows, strict=True)) or [()] * len(schema)
    texts = {
        c.name: [None if v is None else str(v) for v in values]
        for c, values in zip(schema, columns, strict=True)
    }
    query.buffer.announce(schema)
    query.buffer.put(from_pydict(schema, texts))
