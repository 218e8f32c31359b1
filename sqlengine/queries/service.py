"""Ad-hoc statements on a server: sessions of clients, and the statements that run in them.

The parts are those of Flink's gateway: a session, in it operations (here queries), whose results
are fetched page by page."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from parser.errors import JobError, ServiceError, SqlError
from planner.settings import MINI_BATCH
from sqlengine.access.policy import Action, allows
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.connectors.plain_secrets import masked, plain_values
from sqlengine.engine import Engine
from sqlengine.functions.pool import POOL
from sqlengine.queries.client_session import ClientSession, Names, names_in
from sqlengine.queries.execution import Execution
from sqlengine.queries.query import Query, QueryState, RowBudget, TooManyQueries
from sqlengine.system.hidden import hide

log = logging.getLogger("sqlengine")

# Sessions and statements of one server, running or not, at most.
MAX_KEPT = 200
# The group of the workers that run users' functions for queries.
WORKERS = "queries"


class QueryService:
    """Runs ad-hoc statements over an engine, each in a thread of its own. May be called from any
    thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = engine.config.queries
        self._budget = RowBudget(self._limits.rows_per_second)
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._queries: dict[str, Query] = {}
        self._running = 0
        self._closed = False

    # ---- sessions --------------------------------------------------------------------------------

    def open_session(self, by: Principal = TRUSTED) -> str:
        """Opens a session of a client; returns its name."""
        with self._lock:
            self._tidy()
            name = str(uuid.uuid4())
            self._sessions[name] = replace(self._fresh(), by=by.name)
            return name

    def close_session(self, name: str, by: Principal = TRUSTED) -> None:
        """Closes a session. JobError if the client has none of that name."""
        self._session(name, by)
        with self._lock:
            self._sessions.pop(name, None)

    def _fresh(self) -> ClientSession:
        settings = {MINI_BATCH: "true", "job.on-error": "dead-letter"}
        return ClientSession(settings={**settings, **self._engine.config.settings})

    def _session(self, name: str | None, by: Principal) -> ClientSession:
        if name is None:
            return self._fresh()
        session = self._sessions.get(name)
        if session is None or not _is_own(session.by, by):
            raise JobError(
                f"session '{name}' does not exist",
                detail="the server was started again, or nobody used it for long",
                hint="open another one",
            )
        session.used_at = time.monotonic()
        return session

    def names(self, session: str | None = None, by: Principal = TRUSTED) -> Names:
        """Returns the names that a session of the client can write."""
        catalog = self._session(session, by).place_in(self._engine.catalog)
        jobs = [j.name for j in self._engine.jobs() if allows(by, Action.SEE_JOB, j.name)]
        return names_in(catalog, jobs)

    # ---- statements ------------------------------------------------------------------------------

    def submit(
        self,
        sql: str,
        *,
        session: str | None = None,
        client: str = "",
        follow: bool = False,
        timeout_s: float | None = None,
        by: Principal = TRUSTED,
    ) -> Query:
        """Starts a statement, which others may precede that set or define something for it.

        `follow`: a query goes on with rows that come later. The query's buffer has what comes of
        it, also its error."""
        state = self._session(session, by)
        identity = str(uuid.uuid4())
        now = self._engine.now_ms()
        query = Query(identity, sql, client, now, self._limits, self._budget, timeout_s, by)
        with self._lock:
            if self._closed:
                raise ServiceError("the server stops")
            self._tidy()
            self._queries[identity] = query
        threading.Thread(
            target=self._run, args=(query, state, follow), name=f"query-{identity[:8]}", daemon=True
        ).start()
        return query

    def query(self, identity: str, by: Principal = TRUSTED) -> Query:
        """Returns a statement that runs, or whose result is kept. JobError if the client has
        none of that name."""
        for known in list(self._queries.values()):
            known.watch()
        query = self._queries.get(identity)
        if query is None or not _is_own(query.by.name, by):
            raise JobError(
                f"query '{identity}' does not exist", detail="it may have ended, and been forgotten"
            )
        return query

    def running(self, by: Principal = TRUSTED) -> list[Query]:
        """Returns the statements of the client that run, oldest first; an administrator sees
        all."""
        own = [q for q in list(self._queries.values()) if _is_own(q.by.name, by)]
        found = [q for q in own if q.state is QueryState.RUNNING]
        return sorted(found, key=lambda q: q.started_ms)

    def stop(self, identity: str, by: Principal = TRUSTED) -> None:
        """Ends a statement and forgets its result. JobError if the client has none of that
        name."""
        self.query(identity, by).stop()
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
            silent = query.buffer.silent_for()
            if query.state is not QueryState.RUNNING and silent > self._limits.pause_s:
                del self._queries[identity]
        for name, session in list(self._sessions.items()):
            if now - session.used_at > self._limits.session_s:
                del self._sessions[name]
        while len(self._sessions) >= MAX_KEPT:
            # Of who has the most: nobody's go because of another's.
            owned = Counter(session.by for session in self._sessions.values())
            del self._sessions[
                min(
                    self._sessions,
                    key=lambda n: (-owned[self._sessions[n].by], self._sessions[n].used_at),
                )
            ]
        ended = [i for i, q in self._queries.items() if q.state is not QueryState.RUNNING]
        kept = Counter(query.by.name for query in self._queries.values())
        ended.sort(
            key=lambda i: (-kept[self._queries[i].by.name], -self._queries[i].buffer.silent_for())
        )
        for identity in ended[: max(0, len(self._queries) - MAX_KEPT + 1)]:
            del self._queries[identity]
        if len(self._queries) >= MAX_KEPT:
            raise TooManyQueries(f"{MAX_KEPT} ad-hoc statements run already")

    # ---- the thread of a statement ---------------------------------------------------------------

    def _run(self, query: Query, state: ClientSession, follow: bool) -> None:
        error: SqlError | None = None
        try:
            with POOL.apart(WORKERS):
                Execution(self._engine, query, state, self._slot, follow=follow).run()
        except SqlError as failure:
            error = hide(failure, plain_values(query.sql))
        except Exception:
            log.exception("query of %s failed: %s", query.client, masked(query.sql)[:200])
            error = ServiceError(
                "internal error in a query", detail="the server's log has the trace"
            )
        query.buffer.complete(error)

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


def _is_own(owner: str, by: Principal) -> bool:
    """True if a client may use what a principal has begun."""
    return by.is_admin or owner == by.name
