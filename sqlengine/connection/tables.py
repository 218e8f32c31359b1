"""Tables of Python objects: what they hold, how they are defined, how their rows get there."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from parser import parse
from parser.errors import ServiceError, SqlError
from parser.statements import CreateTable
from parser.types import Schema
from planner import bind
from planner.catalog import Catalog, Table
from sqlengine.batch import Batch
from sqlengine.connection.arguments import column_types
from sqlengine.connection.columns import (
    columns_of_arrow,
    columns_of_rows,
    schema_of,
    sql_types,
    types_of_row,
)
from sqlengine.connection.definers import PREFIX, job_for
from sqlengine.connection.feeds import Feed
from sqlengine.connection.jobs import Jobs
from sqlengine.connection.table_texts import create_table, event_time_lines
from sqlengine.connection.topics import Topics
from sqlengine.connectors.memory.tables import Memory, MemoryTable
from sqlengine.connectors.registry import declared
from sqlengine.formats.registry import encoder_of

if TYPE_CHECKING:
    from sqlengine.broker.base import Broker

# Rows of Arrow that are written to a topic at once.
_AT_ONCE: Final = 5_000


@dataclass(frozen=True)
class Held:
    """The things that this process holds for the engine in it: tables, and functions that take
    rows."""

    memory: Memory
    callables: dict[str, Callable[[pa.RecordBatch], object]]


@dataclass(frozen=True)
class Home:
    """The place where tables are made: jobs and topics of an engine, and what this process holds
    for it (None: it runs elsewhere)."""

    jobs: Jobs
    broker: Callable[[], Broker]
    held: Held | None


@dataclass(frozen=True)
class Rows:
    """The rows of an object: a table, or items to come with how these become columns."""

    types: Mapping[str, str]
    whole: pa.Table | Sequence[object] | None = None
    items: Iterable[object] | AsyncIterable[object] = ()


def register(
    home: Home,
    name: str,
    given: object,
    types: Mapping[str, str] | None,
    event_time: str | None,
    watermark: dt.timedelta,
    *,
    append: bool,
) -> Feed:
    """See `Connection.register_table`."""
    if callable(given) and not hasattr(given, "__arrow_c_stream__"):
        if not (inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given)):
            if types is None:
                raise ServiceError(
                    f"the columns of table '{name}' are not known",
                    hint="say them: schema={'id': 'BIGINT', …}",
                )
            register_sink(home, name, given, types)
            return Feed(name, (), lambda rows, number: 0)
        given = given()
    rows = _rows_of(name, given, None if types is None else column_types(types))
    schema = schema_of(rows.types)
    time_columns = event_time_lines(schema, event_time, watermark)
    held = home.held
    if held is not None and rows.whole is not None:
        columns = _columns(rows.whole, schema, 1)
        batch = Batch(schema, tuple(columns), len(rows.whole))
        job = job_for(home.jobs, name)
        key = _key(job)
        held.memory.tables[key] = MemoryTable(batch)
        _define(home, job, name, schema, time_columns, {"connector": "memory", "name": key})
        return Feed(name, (), lambda rows, number: 0)
    return _fed(home, name, rows, schema, time_columns, append=append)


def _rows_of(name: str, given: object, types: Mapping[str, str] | None) -> Rows:
    if hasattr(given, "__arrow_c_stream__"):
        reader = _reader(name, given)
        known = sql_types(reader.schema, types or {})
        if isinstance(given, Sized) or hasattr(given, "num_rows"):
            return Rows(known, reader.read_all())
        return Rows(known, items=reader)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return Rows(types or _types_of_all(name, given), given)
    if isinstance(given, AsyncIterable) and types is not None:
        return Rows(types, items=given)
    if isinstance(given, AsyncIterable):
        raise ServiceError(
            f"the columns of table '{name}' are not known before an asynchronous generator runs",
            hint="say them: schema={'id': 'BIGINT', …}",
        )
    if not isinstance(given, Iterable) or isinstance(given, Mapping | str | bytes):
        raise ServiceError(
            f"a table cannot be made of '{type(given).__name__}'",
            detail="it can be of what knows Arrow's PyCapsules, an iterable of rows, a function",
            hint=_remedy(given),
        )
    return Rows(types, items=given) if types is not None else _peeked(name, iter(given))


def _remedy(given: object) -> str | None:
    if isinstance(given, Mapping):
        return "columns become a table with pyarrow.table(…), one row is [row]"
    return "collect it before: .collect()" if hasattr(given, "collect") else None


def _reader(name: str, given: object) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(given)
    except pa.ArrowException as error:  # of a frame of pandas with values of several types
        detail = " ".join(map(str, error.args))[:300]
        raise ServiceError(
            f"table '{name}' cannot be made of a {type(given).__name__}", detail=detail
        ) from None


def _types_of_all(name: str, rows: Sequence[object]) -> Mapping[str, str]:
    if not rows:
        raise _no_rows(name)
    return types_of_row(rows[0])


def _peeked(name: str, rows: Iterator[object]) -> Rows:
    for first in rows:
        return Rows(types_of_row(first), items=itertools.chain([first], rows))
    raise _no_rows(name)


def _no_rows(name: str) -> ServiceError:
    return ServiceError(
        f"the columns of table '{name}' are not known: there is no row",
        hint="say them: schema={'id': 'BIGINT', …}",
    )


def _columns(rows: object, schema: Schema, number: int) -> list[pa.Array]:
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return columns_of_arrow(rows, schema)
    assert isinstance(rows, Sequence)
    return columns_of_rows(rows, schema, number)


def _define(
    home: Home,
    job: str,
    name: str,
    schema: Schema,
    more: Sequence[str],
    options: Mapping[str, str],
) -> None:
    home.jobs.submit(job, create_table(name, schema, more, options))


def _key(job: str) -> str:
    """Returns by which name this process holds what the table of a job gives, or takes: that of
    the table may change."""
    return job.removeprefix(PREFIX)


def _fed(
    home: Home,
    name: str,
    rows: Rows,
    schema: Schema,
    more: Sequence[str],
    *,
    append: bool,
) -> Feed:
    """Writes rows to a topic: all of them, where they have an end."""
    options = {"connector": "topic", "topic": name, "format": "json"}
    options |= {"scan.startup.mode": "earliest-offset"}
    known = {topic.name for topic in home.broker().topics()}
    if name in known and not append:
        raise ServiceError(
            f"topic '{name}' exists already, and the rows of the table would come behind its own",
            hint="choose another name, say that they shall: append=True, or delete the topic:"
            f" connection.topics[{name!r}].delete()",
        )
    Topics(home.broker).create(name, if_not_exists=True)
    try:
        _define(home, job_for(home.jobs, name), name, schema, more, options)
    except SqlError:
        if name not in known:
            home.broker().delete_topic(name)
        raise
    table = _bound(create_table(name, schema, more, options))

    def write(items: Sequence[object], number: int) -> int:
        return _write(home, table, schema, items, number)

    if rows.whole is None:
        return Feed(name, rows.items, write)
    whole = rows.whole
    parts = [whole[i : i + _AT_ONCE] for i in range(0, len(whole), _AT_ONCE)]
    items = itertools.chain.from_iterable(p if isinstance(p, list | tuple) else [p] for p in parts)
    feed = Feed(name, items, write)
    feed.wait()
    return feed


def _bound(text: str) -> Table:
    (statement,) = parse(text)
    assert isinstance(statement, CreateTable)
    table = bind(statement, Catalog(), {}, job="")
    assert isinstance(table, Table)
    return declared(table)


def _write(home: Home, table: Table, schema: Schema, items: Sequence[object], number: int) -> int:
    """Appends rows to the table's topic: batches of Arrow one by one, others at once."""
    if isinstance(items[0], pa.RecordBatch | pa.Table):
        return sum(_append(home, table, schema, columns_of_arrow(b, schema)) for b in items)
    return _append(home, table, schema, columns_of_rows(items, schema, number))


def _append(home: Home, table: Table, schema: Schema, columns: Sequence[pa.Array]) -> int:
    rows = len(columns[0])
    if rows:
        values = encoder_of(table, schema).encode(Batch(schema, tuple(columns), rows))
        now_ms = time.time_ns() // 1_000_000
        home.broker().append(table.options["topic"], 0, values, timestamp_ms=now_ms)
    return rows


def register_sink(
    home: Home,
    name: str,
    function: Callable[[pa.RecordBatch], object],
    types: Mapping[str, str],
) -> None:
    """See `Connection.register_sink`."""
    held = home.held
    if held is None:
        raise ServiceError(
            f"a server cannot give the rows of table '{name}' to a function of this process",
            hint="write them to a topic, and read that here: connection.sql(…, follow=True)",
        )
    if not callable(function):
        raise ServiceError(
            f"a sink is a function that takes record batches, not a {type(function).__name__}"
        )
    schema = schema_of(column_types(types))
    job = job_for(home.jobs, name)
    held.callables[_key(job)] = function
    _define(home, job, name, schema, [], {"connector": "python", "callable": _key(job)})


def unregister(home: Home, job: str) -> None:
    """Removes a table by the job that defines it, see `Connection.unregister_table`."""
    home.jobs.remove(job)
    if (held := home.held) is not None:
        held.memory.tables.pop(_key(job), None)
        held.callables.pop(_key(job), None)
