"""A server that copies a table of a connector to a topic, or a topic to such a table."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlengine.service import Service
from tests.connectors.contract.place import Direction, Place, Property, Row
from tests.connectors.lives import JOB
from tests.service.harness import User, running
from tests.support import eventually

KILLS = int(os.environ.get("SQLENGINE_KILLS", "50"))
LARGE = 10_000_000  # bytes of a record


def named(ids: Sequence[int]) -> list[Row]:
    return [{"id": i, "name": f"n{i}"} for i in ids]


def ids(rows: Sequence[Row]) -> Counter[int]:
    return Counter(row["id"] for row in rows)


def text(
    place: Place, direction: Direction, shown: Property, made: str = "", name: str = "name"
) -> str:
    """A job from the table to a topic, or from there (or from the table that `made` declares) to the
    table. `name`: what becomes of a name."""
    columns = place.types if shown == "types" else "id BIGINT, name STRING"
    key = place.constraint if direction == "in" else ""
    upsert = ", 'upsert' = 'true'" if key else ""
    topic = f"'connector' = 'topic', 'topic' = 'here', 'format' = 'json'{upsert}"
    tables = made or f"CREATE TABLE here ({columns}{key}) WITH ({topic});\n"
    if direction == "in":
        tables += place.create("source", "in", shown)
        rows = f"id, {name} FROM (SELECT {place.select} FROM source) AS t (id, name)"
        return f"{tables}INSERT INTO here SELECT {'* FROM source' if shown == 'types' else rows};"
    tables += place.create("target", "out", shown)
    rows = f"{place.select} FROM (SELECT id, {name} FROM here) AS t (id, name)"
    last = " ON CONFLICT DO DEDUPLICATE" if place.key else ""
    return f"{tables}INSERT INTO target SELECT {'* FROM here' if shown == 'types' else rows}{last};"


@contextmanager
def copying(
    place: Place,
    direction: Direction,
    shown: Property,
    data: Path,
    name: str = "name",
    *,
    rows: Sequence[Row] = (),
    **config: Any,
) -> Iterator[tuple[Service, User]]:
    """A server that runs the job, and hears what comes. `rows`: the first of the table."""
    if rows and place.bounded:
        place.put(rows)
    with running(data, checkpoint_ms=200, **config) as (service, user):
        place.serve(service.port)
        user.topic("here")
        user.submit(JOB, text(place, direction, shown, name=name))
        listens(place, direction, service)
        if rows and not place.bounded:
            place.put(rows)
        yield service, user


def listens(place: Place, direction: Direction, service: Service) -> None:
    if direction == "in":
        eventually(partial(place.listening, service), lambda: service.engine.receivers.views())


def came(user: User, count: int) -> Sequence[Row]:
    """The rows that the server has got, once there are so many."""
    found: Sequence[Row] = eventually(
        lambda: len(rows := user.read("here")) >= count and rows,
        lambda: (count, len(user.read("here")), user.job(JOB), user.letters()[:2]),
    )
    return found


def arrived(place: Place, user: User, count: int) -> Sequence[Row]:
    """The rows that the table has, once there are so many."""
    found: Sequence[Row] = eventually(
        lambda: len(rows := place.got()) >= count and rows,
        lambda: (count, len(place.got()), user.job(JOB), user.letters()[:2]),
    )
    return found


def hint(service: Service) -> str:
    """What the job says it waits for, once it does."""
    return eventually(lambda: service.engine.hints().get(JOB, ""), "a word of it")
