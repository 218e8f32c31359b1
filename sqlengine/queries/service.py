"""Ad-hoc statements on a server: sessions of clients, and the statements that run in them.

The parts are those of Flink's gateway: a session, in it operations (here queries), whose results
are fetched page by page."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from parser import parse
from parser.errors import JobError, ParseError, Position, ServiceError, SqlError, UnsupportedError
from parser.statements import Describe, Explain, Show, ShowCreate, Statement, StopJob
from parser.statements import Query as Select
from parser.types import STRING, Column, Schema
from planner.catalog import Catalog, CatalogObject, Function, Identifier, Table, View
from planner.settings import MINI_BATCH
from sqlengine.batch import from_pydict
from sqlengine.catalog.modules import CORE
from sqlengine.connectors.base import Environment
from sqlengine.engine import Engine
from sqlengine.engine.statements import Answer, list_jobs, stop_job
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.memory_limits import LIMIT, memory_limit
from sqlengine.functions.pool import POOL
from sqlengine.queries.ad_hoc import AdHocSession, BufferOutput
from sqlengine.queries.query import TURN_S, Query, QueryEnded, QueryState, TooManyQueries
from sqlengine.session.session import EmbeddedRunner
from udf.reference import function_names

log = logging.getLogger("sqlengine")

# Sessions and statements of one server, running or not, at most.
MAX_KEPT = 200
# Seconds for which the result of a statement that has ended is kept for its client.
KEPT_S = 60.0
# The group of the workers that run users' functions for queries.
WORKERS = "queries"


@dataclass
class ClientSession:
    """A client's session: temporary objects, current database and settings, as its statements left
    them.

    `used_at`: when a statement last came (monotonic seconds)."""

    temporary: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    catalog: str | None = None
    database: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = (CORE,)
    used_at: float = field(default_factory=time.monotonic)

    def place_in(self, catalog: Catalog) -> Catalog:
        """Returns the server's catalog as this session sees it."""
        catalog = replace(catalog, temporary=self.temporary)
        return catalog.with_use(catalog=self.catalog, database=self.database)

    def keep(self, session: AdHocSession) -> None:
        """Keeps what a statement has set."""
        self.temporary, self.modules = session.catalog.temporary, session.modules
        self.catalog, self.database = session.catalog.catalog, session.catalog.database
        self.settings = dict(session.settings)


@dataclass(frozen=True)
class Names:
    """The names that a session can write, for completion: tables and views with their columns."""

    tables: Mapping[str, Sequence[str]]
    functions: Sequence[str]
    jobs: Sequence[str]


class QueryService:
    """Runs ad-hoc statements over an engine, each in a thread of its own. May be called from any
    thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = engine.config.queries
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._queries: dict[str, Query] = {}
        self._running = 0
        self._closed = False

    # ---- sessions --------------------------------------------------------------------------------

    def open_session(self) -> str:
        """Opens a session; returns its name."""
        with self._lock:
            self._tidy()
            name = str(uuid.uuid4())
            self._sessions[name] = self._fresh()
            return name

    def close_session(self, name: str) -> None:
        """Closes a session. JobError if there is none."""
        self._session(name)
        with self._lock:
            self._sessions.pop(name, None)

    def _fresh(self) -> ClientSession:
        settings = {MINI_BATCH: "true", "job.on-error": "dead-letter"}
        return ClientSession(settings={**settings, **self._engine.config.settings})

    def _session(self, name: str | None) -> ClientSession:
        if name is None:
            return self._fresh()
        session = self._sessions.get(name)
        if session is None:
            raise JobError(
                f"session '{name}' does not exist",
                detail="the server was started again, or nobody used it for long",
                hint="open another one",
            )
        session.used_at = time.monotonic()
        return session

    def names(self, session: str | None = None) -> Names:
        """Returns the names that a session can write."""
        catalog = self._session(session).place_in(self._engine.catalog)
        relations = [(n, catalog.get((n,))) for k in (Table, View) for n in catalog.names(k)]
        tables = {n: _columns(o) for n, o in sorted(relations)}
        functions = sorted({*function_names(), *catalog.names(Function)}, key=str.lower)
        return Names(tables, functions, [j.name for j in self._engine.jobs()])

    # ---- statements ------------------------------------------------------------------------------

    def submit(
        self,
        sql: str,
        *,
        session: str | None = None,
        client: str = "",
        follow: bool = False,
        timeout_s: float | None = None,
    ) -> Query:
        """Starts a statement, which others may precede that set or define something for it.

        `follow`: a query goes on with rows that come later. The query's buffer has what comes of
        it, also its error."""
        state = self._session(session)
        identity = str(uuid.uuid4())
        now = self._engine.now_ms()
        query = Query(identity, sql, client, now, self._limits, timeout_s)
        with self._lock:
            if self._closed:
                raise ServiceError("the server stops")
            self._tidy()
            self._queries[identity] = query
        threading.Thread(
            target=self._run, args=(query, state, follow), name=f"query-{identity[:8]}", daemon=True
        ).start()
        return query

    def query(self, identity: str) -> Query:
        """Returns a statement that runs, or whose result is kept. JobError if there is none."""
        query = self._queries.get(identity)
        if query is None:
            raise JobError(
                f"query '{identity}' does not exist", detail="it may have ended, and been forgotten"
            )
        return query

    def running(self) -> list[Query]:
        """Returns the statements that run, oldest first."""
        found = [q for q in list(self._queries.values()) if q.state is QueryState.RUNNING]
        return sorted(found, key=lambda q: q.started_ms)

    def stop(self, identity: str) -> None:
        """Ends a statement and forgets its result. JobError if there is none."""
        self.query(identity).stop()
        with self._lock:
            self._queries.pop(identity, None)

    def close(self) -> None:
        """Ends all statements."""
        with self._lock:
            self._closed = True
            queries = list(self._queries.values())
        for query in queries:
            query.stop()
        until = time.monotonic() + 5
        while self._running and time.monotonic() < until:
            time.sleep(0.01)

    def _tidy(self) -> None:
        """Forgets what its client has forgotten; the caller holds the lock."""
        now = time.monotonic()
        for identity, query in list(self._queries.items()):
            if query.state is not QueryState.RUNNING and query.buffer.silent_for() > KEPT_S:
                del self._queries[identity]
        for name, session in list(self._sessions.items()):
            if now - session.used_at > self._limits.session_s:
                del self._sessions[name]
        if max(len(self._queries), len(self._sessions)) >= MAX_KEPT:
            raise TooManyQueries(f"{MAX_KEPT} ad-hoc statements or sessions are open already")

    # ---- the thread of a statement ---------------------------------------------------------------

    def _run(self, query: Query, state: ClientSession, follow: bool) -> None:
        error: SqlError | None = None
        try:
            with POOL.apart(WORKERS):
                self._execute(query, state, follow=follow)
        except SqlError as failure:
            error = failure
        except Exception:
            log.exception("query of %s failed: %s", query.client, query.sql[:200])
            error = ServiceError(
                "internal error in a query", detail="the server's log has the trace"
            )
        query.buffer.complete(error)

    def _execute(self, query: Query, state: ClientSession, *, follow: bool) -> None:
        for statement in _checked(parse(query.sql)):
            session = self._ad_hoc(query, state, follow=follow)
            try:
                answer = self._about_jobs(statement, session.settings)
                if answer is not None:
                    _put(query, answer)
                elif isinstance(statement, Select):
                    with self._slot():
                        session.execute(0, statement)
                else:
                    session.execute(0, statement)
                    state.keep(session)
            except (QueryEnded, TooManyQueries):
                raise
            except SqlError as error:
                raise error.at(statement.position) from None
        if query.buffer.schema is None:
            query.buffer.complete(message="OK")

    def _about_jobs(self, statement: Statement, settings: Mapping[str, str]) -> Answer | None:
        if isinstance(statement, StopJob):
            return stop_job(self._engine, statement, settings)
        if isinstance(statement, Show) and statement.what == "JOBS":
            return list_jobs(self._engine)
        return None

    def _ad_hoc(self, query: Query, state: ClientSession, *, follow: bool) -> AdHocSession:
        engine = self._engine
        environment = Environment(engine.broker, engine.now_ms, f"query-{query.identity}")
        runner = EmbeddedRunner(
            environment,
            OperatorFactory(engine.config.rules),
            engine.config.rows_per_read,
            lambda: _idle(engine),
            dead_letters=query.set_aside,
        )
        session = AdHocSession(
            runner,
            BufferOutput(query.buffer),
            state.place_in(engine.catalog),
            self._within_memory(state.settings),
            engine.library,
            state.modules,
            buffer=query.buffer,
            follow=follow,
        )
        runner.proceed = lambda rows: query.proceed(rows, complete=session.complete)
        return session

    def _within_memory(self, settings: Mapping[str, str]) -> dict[str, str]:
        asked = memory_limit(settings) if LIMIT in settings else self._limits.memory
        return {**settings, LIMIT: f"{min(asked, self._limits.memory)}b"}

    @contextmanager
    def _slot(self) -> Iterator[None]:
        with self._lock:
            if self._running >= self._limits.at_once:
                raise TooManyQueries(
                    f"{self._running} queries run already",
                    detail="more at once would take time from the jobs",
                    hint="'sql query --list' shows them; 'sql serve --queries' sets the number",
                )
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1


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


def _columns(relation: CatalogObject | None) -> Sequence[str]:
    match relation:
        case Table():
            return relation.schema.names
        case View():
            return relation.plan.schema.names
    return ()
