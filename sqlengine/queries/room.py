"""Room for one more session or statement of a server: what has ended makes way, of who has the
most, and nobody has it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from sqlengine.access.principals import Principal
from sqlengine.access.shares import share_of
from sqlengine.queries.client_session import ClientSession
from sqlengine.queries.query import Query, QueryState, TooManyQueries

# Sessions, and statements that run or have results, of one server at most.
MAX_KEPT: Final = 200


def make_room_for_session(
    sessions: dict[str, ClientSession], by: Principal, *, make_way: bool
) -> None:
    """Removes sessions until the principal may open one more. `make_way`: those that were not used
    for longest go, else TooManyQueries is raised."""
    while whose := _with_too_many(sessions, by):
        if not make_way:
            mine = by.name in whose and len(sessions) < MAX_KEPT
            raise TooManyQueries(
                f"{len(sessions)} sessions are open already"
                + (f", as many as {by.shown} may have" if mine else ""),
                hint="close one, or wait until one is over that nobody uses",
            )
        theirs = [name for name, session in sessions.items() if session.by in whose]
        del sessions[min(theirs, key=lambda name: sessions[name].used_at)]


def _with_too_many(sessions: Mapping[str, ClientSession], by: Principal) -> set[str]:
    """Returns the principals of whom one session must go for another; none where there is room."""
    owned = Counter(session.by for session in sessions.values())
    if owned[by.name] >= share_of(MAX_KEPT, by):
        return {by.name}
    if len(sessions) < MAX_KEPT:
        return set()
    most = max(owned.values())
    return {name for name, count in owned.items() if count == most}


def make_room_for_query(queries: dict[str, Query], by: Principal, most_bytes: int) -> None:
    """Forgets results of statements that have ended until one more may begin. `most_bytes`: of all
    texts, and of the results that wait. TooManyQueries where that is not enough."""
    running = [q for q in queries.values() if q.by.name == by.name and _runs(q)]
    if len(running) >= share_of(MAX_KEPT, by):
        raise TooManyQueries(f"{len(running)} ad-hoc statements of {by.shown} run already")
    if sum(len(query.sql) for query in running) > share_of(most_bytes, by):
        raise TooManyQueries(f"the ad-hoc statements of {by.shown} that run are too long already")
    for identity in _first_to_go(queries, most_bytes):
        if not _is_full(queries, most_bytes):
            return
        del queries[identity]
    if _is_full(queries, most_bytes):
        raise TooManyQueries(
            f"{len(queries)} ad-hoc statements run already",
            hint="read what they have, or end them",
        )


def _runs(query: Query) -> bool:
    return query.state is QueryState.RUNNING


def _is_full(queries: Mapping[str, Query], most_bytes: int) -> bool:
    held = sum(query.size for query in queries.values())
    return len(queries) >= MAX_KEPT or held > most_bytes


def _first_to_go(queries: Mapping[str, Query], most_bytes: int) -> list[str]:
    """Returns the statements that have ended: first those of who holds the most, in number or
    bytes, and of these what nobody has asked for for longest."""
    held: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for query in queries.values():
        held[query.by.name] += query.size
        kept[query.by.name] += 1

    def weight(query: Query) -> tuple[float, float]:
        name = query.by.name
        part = max(kept[name] / MAX_KEPT, held[name] / most_bytes)
        return -part, -query.buffer.silent_for()

    ended = [identity for identity, query in queries.items() if not _runs(query)]
    return sorted(ended, key=lambda identity: weight(queries[identity]))
