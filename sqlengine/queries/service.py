"""Ad-hoc statements on a server: sessions of clients, and the statements that run in them.

The parts are those of Flink's gateway: a session, in it operations (here queries), whose results
are fetched page by page."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from parser.errors import JobError, PlanError, ServiceError
from parser.limits import present
from sqlengine.access.audit.log import NO_AUDIT, Audit
from sqlengine.access.policy import Action, allows
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.access.shares import Shares, share_of
from sqlengine.engine import Engine
from sqlengine.queries.client_session import LOOKING, ClientSession, Names, names_in
from sqlengine.queries.execution import Execution, Slot
from sqlengine.queries.giving_way import GivingWay
from sqlengine.queries.query import (
    TURN_S,
    Budget,
    Query,
    QueryEnded,
    QueryState,
    TooManyQueries,
)
from sqlengine.queries.room import make_room_for_query, make_room_for_session
from sqlengine.queries.running import run
from sqlengine.queries.turns import PlanningTurns
from sqlengine.system.memory import usable_bytes

# Of the memory of the machine, results that wait for their readers have one in so many at most.
_HELD_PART = 8


class QueryService:
    """Runs ad-hoc statements over an engine, each in a thread of its own. May be called from any
    thread. `audit` is told of those that end since their clients may not ask any more."""

    def __init__(self, engine: Engine, audit: Audit = NO_AUDIT) -> None:
        self._engine = engine
        self._audit = audit
        self._limits = engine.config.queries
        self._budget = Budget(self._limits.rows_per_second)
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._queries: dict[str, Query] = {}
        self._slots = Shares(self._limits.at_once)
        self._planning = PlanningTurns()
        self._giving_way = GivingWay(engine.works)
        self._most_held = usable_bytes() // _HELD_PART
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once no more statements are taken, as the server stops."""
        return self._closed

    # ---- sessions --------------------------------------------------------------------------------

    def open_session(
        self, by: Principal = TRUSTED, settings: Mapping[str, str] | None = None
    ) -> str:
        """Opens a session of a client; returns its name. `settings`: those it begins with, in the
        place of those for people who look at tables; such a session has no other make way for it:
        TooManyQueries where there are too many."""
        with self._lock:
            self._tidy()
            make_room_for_session(self._sessions, by, make_way=settings is None)
            name = str(uuid.uuid4())
            others = partial(self._kept_elsewhere, name, by)
            opened = replace(self._fresh(), by=by.name, others=others)
            if settings is not None:
                given = {**self._engine.config.settings, **settings}
                opened.check_room(replace(opened, settings=given))
                opened.settings = given
            self._sessions[name] = opened
            return name

    def _kept_elsewhere(self, name: str, by: Principal) -> int:
        """Returns the size of a principal's sessions but one. Administrators, and whoever is not
        told apart, have as much for each."""
        if by.is_admin:
            return 0
        known = list(self._sessions.items())
        return sum(s.size for n, s in known if n != name and s.by == by.name)

    def close_session(self, name: str, by: Principal = TRUSTED) -> None:
        """Closes a session, and ends the statements that end with it. JobError if the client has
        none of that name."""
        self.session(name, by)
        with self._lock:
            self._sessions.pop(name, None)
            ended = [i for i, query in self._queries.items() if query.session == name]
        for identity in ended:
            self.stop(identity, by)

    def session(
        self, name: str, by: Principal = TRUSTED, rights: Callable[[], object] | None = None
    ) -> ClientSession:
        """Returns a session of the client, which is used now. `rights`: see `ClientSession`.
        JobError if there is none of that name."""
        session = self._session(name, by)
        session.rights = rights or session.rights
        return session

    def _fresh(self) -> ClientSession:
        return ClientSession(settings={**LOOKING, **self._engine.config.settings})

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
        execution: Callable[..., Execution] = Execution,
    ) -> Query:
        """Starts a statement, which others may precede that set or define something for it.

        `follow`: a query goes on with rows that come later. `execution` makes what runs it; by
        default nothing is written. The query's buffer has what comes of it, also its error."""
        state, now = self._session(session, by), self._engine.now_ms()
        query = Query(
            str(uuid.uuid4()), sql, client, now, self._limits, self._budget, timeout_s, by
        )
        slot = partial(self._slot, query)
        return self._start(query, execution(self._engine, query, state, slot, follow=follow))

    def operate(
        self,
        sql: str,
        session: str,
        execution: Callable[[Engine, Query, ClientSession, Slot], Execution],
        *,
        client: str = "",
        timeout_s: float | None = None,
        by: Principal = TRUSTED,
        rights: Callable[[], object] | None = None,
    ) -> Query:
        """Starts a statement that ends with its session, and whose rows wait as long for their
        reader. `execution` makes what runs it; `rights`: see `ClientSession`."""
        state, now = self.session(session, by, rights), self._engine.now_ms()
        query = Query(
            str(uuid.uuid4()),
            sql,
            client,
            now,
            self._limits,
            self._budget,
            timeout_s,
            by,
            session,
            lives=partial(self._lives, session),
            rights=lambda: state.rights(),  # those of whoever has used it last
        )
        slot = partial(self._slot, query)
        return self._start(query, execution(self._engine, query, state, slot))

    def _start(self, query: Query, execution: Execution) -> Query:
        check_text(len(query.sql))
        with self._lock:
            if self._closed:
                raise ServiceError("the server stops")
            self._tidy()
            make_room_for_query(self._queries, query.by, self._most_held)
            self._queries[query.identity] = query
        execution.planning = self._planning.of(query)
        query.guard.rest = self._giving_way.of(query)
        name = f"query-{query.identity[:8]}"
        threading.Thread(
            target=run, args=(query, execution, self._audit), name=name, daemon=True
        ).start()
        return query

    def _lives(self, session: str) -> bool:
        """True if a session is open, and somebody uses it."""
        known = self._sessions.get(session)
        return known is not None and time.monotonic() - known.used_at <= self._limits.session_s

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
        while self._slots.taken() and time.monotonic() < until:
            time.sleep(0.01)

    def _tidy(self) -> None:
        """Forgets what its client has forgotten; the caller holds the lock."""
        now = time.monotonic()
        for identity, query in list(self._queries.items()):
            silent = query.buffer.silent_for() > self._limits.pause_s
            over = silent if not query.session else not query.wanted
            if query.state is not QueryState.RUNNING and over:
                del self._queries[identity]
        for name, session in list(self._sessions.items()):
            if now - session.used_at > self._limits.session_s:
                del self._sessions[name]

    # ---- the thread of a statement ---------------------------------------------------------------

    @contextmanager
    def _slot(self, query: Query, patience_s: float) -> Iterator[None]:
        until = time.monotonic() + patience_s
        while not self._slots.take(query.by):
            if query.state is not QueryState.RUNNING:
                raise QueryEnded("the query was stopped")
            if time.monotonic() >= until:
                raise self._no_slot(query.by)
            time.sleep(TURN_S)
        try:
            yield
        finally:
            self._slots.leave(query.by)

    def _no_slot(self, by: Principal) -> TooManyQueries:
        running, share = self._slots.taken(), share_of(self._slots.places, by)
        all_taken = running >= self._slots.places
        return TooManyQueries(
            f"{running} queries run already"
            if all_taken
            else f"{share} queries of {by.shown} run already, others need the rest",
            detail="more at once would take time from the jobs",
            hint="'sql query --list' shows them; 'sql serve --queries' sets the number",
        )


def check_text(size: int) -> None:
    """Raises PlanError for more characters than the statements of a request may have."""
    if size > present().text_size:
        raise PlanError(
            f"the text has {size:,} characters, at most {present().text_size:,} are allowed"
            " ('text-size')",
            hint="send its statements one after the other, in a session",
        )


def _is_own(owner: str, by: Principal) -> bool:
    """True if a client may use what a principal has begun."""
    return by.is_admin or owner == by.name
