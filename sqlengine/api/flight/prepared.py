"""Prepared statements: a text with marks, and the parameters that were bound last."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from parser.errors import JobError, SqlError
from parser.limits import present
from parser.writer.parameters import BadParameters, Template, template
from parser.writer.row_inserts import inserts, row_insert
from sqlengine.connection.parameters import of_batch
from sqlengine.connection.values import python_values
from sqlengine.system.untrusted.arrow_values import decoded_size

# Statements of one server, and the bytes of their texts and parameters: of who has the most, the
# one that was not used for longest makes way for another.
_MOST: Final = 1_000
_MOST_BYTES: Final = 64 << 20
# Rows of parameters that are held for a query.
_ROWS: Final = 1_000

# Values with which a parameter is tried, and the types of those that fit.
_TRIED: Final[tuple[tuple[object, pa.DataType], ...]] = (
    (0, pa.int64()),
    ("", pa.string()),
    (0.0, pa.float64()),
    (dt.datetime(1970, 1, 1), pa.timestamp("us")),
    (dt.date(1970, 1, 1), pa.date32()),
    (True, pa.bool_()),
    (b"", pa.binary()),
)
# Parameters whose types are looked for, and characters of their statement; those of one with more
# are texts. Each type that is tried is planned.
_GUESSED: Final = 40
_GUESSED_IN: Final = 20_000
# The columns of a query that can be planned only with the parameters that come.
_UNKNOWN: Final = pa.schema([pa.field("unknown", pa.string())])
# A statement, perhaps with rows that it reads.
Update: TypeAlias = str | tuple[str, pa.RecordBatch]
_QUERIES: Final = ("SELECT", "WITH", "VALUES")


def shape(statement: Template, columns: Callable[[str], pa.Schema]) -> tuple[pa.Schema, pa.Schema]:
    """Returns the columns of a statement, and the types of its parameters: for each the first one
    with which it can be planned. `columns` plans a text.

    JDBC binds values of these types alone."""
    places = range(statement.count)
    tried = (
        places if len(places) <= _GUESSED and sum(map(len, statement.texts)) <= _GUESSED_IN else ()
    )
    known: dict[int, tuple[object, pa.DataType]] = {}
    for _ in range(2):  # some places take no NULL, which the others need to be known for
        for place in tried:
            if place not in known:
                others: list[object] = [known[n][0] if n in known else None for n in places]
                fitting = _fitting(statement, columns, others, place)
                known |= {} if fitting is None else {place: fitting}
    found = [known.get(place, ("", pa.string())) for place in places]
    fields = [pa.field(f"parameter_{n}", kind) for n, (_, kind) in enumerate(found, 1)]
    try:
        rows = columns(statement.bound([value for value, _ in found]))
    except SqlError:
        if not places:
            raise
        rows = _UNKNOWN if _is_query(statement) else pa.schema([])
    return rows, pa.schema(fields)


def _is_query(statement: Template) -> bool:
    words = statement.texts[0].upper().split()
    return bool(words) and words[0].startswith(_QUERIES)


def _fitting(
    statement: Template,
    columns: Callable[[str], pa.Schema],
    values: list[object],
    place: int,
) -> tuple[object, pa.DataType] | None:
    """Returns the first value that can stand at a place, with its type; None where none can."""
    for value, kind in _TRIED:
        with suppress(SqlError):
            columns(statement.bound([*values[:place], value, *values[place + 1 :]]))
            return value, kind
    return None


def template_of(sql: str) -> Template:
    """Returns a statement with its marks. BadParameters for one that is longer than a statement may
    be."""
    _check_length(len(sql), "the statement has")
    return template(sql)


@dataclass
class Prepared:
    """A prepared statement of a principal. `parameters`: rows that were bound to it, of
    `parameter_bytes`."""

    sql: str
    by: str
    parameters: list[Sequence[object]] = field(default_factory=list)
    parameter_bytes: int = 0

    @property
    def template(self) -> Template:
        """The text with its marks."""
        return template(self.sql)

    def bind(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Keeps parameters for the query that comes. BadParameters for too many, or for more than a
        statement may have."""
        rows: list[Sequence[object]] = []
        size = 0
        for batch in batches:
            if len(rows) + batch.num_rows > _ROWS:
                raise BadParameters(f"a query takes {_ROWS} rows of parameters at most")
            size += decoded_size(batch)
            _check_length(size, "the parameters have")
            rows += rows_of(batch)
        self.parameters, self.parameter_bytes = rows, size

    @property
    def size(self) -> int:
        """The bytes that it holds, about."""
        return len(self.sql) + self.parameter_bytes

    def query(self) -> str:
        """Returns the statement with its parameters."""
        if not self.template.count:
            return self.sql
        if len(self.parameters) != 1:
            raise BadParameters(
                f"the statement has {self.template.count} parameters, and {len(self.parameters)}"
                " rows of them are bound",
                hint="bind one row before it is executed",
            )
        return self.template.bound(self.parameters[0])

    def updates(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Update]:
        """Yields the statements for all rows of parameters: texts, or such with rows that they
        read."""
        if not self.template.count:
            for _ in batches:  # a row of drivers that send one without columns
                pass
            yield self.sql
            return
        insert = row_insert(self.sql, "qmark")
        for batch in batches:
            whole = None if insert is None else of_batch(insert, batch)
            if whole is None:
                yield from inserts(self.sql, "qmark", rows_of(batch))
            else:
                yield whole


class PreparedStatements:
    """The prepared statements of a server, by handle. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Prepared] = OrderedDict()

    def add(self, sql: str, by: str) -> str:
        """Keeps a statement of a principal; returns its handle."""
        handle = str(uuid.uuid4())
        with self._lock:
            self._known[handle] = Prepared(sql, by)
            while self._is_full():
                del self._known[self._first_to_go(handle)]
        return handle

    def _is_full(self) -> bool:
        held = sum(prepared.size for prepared in self._known.values())
        return len(self._known) > 1 and (len(self._known) > _MOST or held > _MOST_BYTES)

    def _first_to_go(self, latest: str) -> str:
        """Returns the handle of one of who has the most, in bytes and in number."""
        sizes: Counter[str] = Counter()
        for prepared in self._known.values():
            sizes[prepared.by] += prepared.size + _MOST_BYTES // _MOST
        (most, _), *_ = sizes.most_common(1)
        theirs = (h for h, p in self._known.items() if p.by == most and h != latest)
        return next(theirs, next(iter(self._known)))

    def find(self, handle: bytes | None, by: str) -> Prepared:
        """Returns a statement. JobError if the principal has none of that handle."""
        name = (handle or b"").decode("utf-8", "replace")
        with self._lock:
            found = self._known.get(name)
            if found is None or found.by != by:
                raise JobError(
                    f"prepared statement '{name[:60]}' does not exist", hint="prepare it again"
                )
            self._known.move_to_end(name)
            return found

    def remove(self, handle: bytes | None, by: str) -> None:
        """Forgets a statement, if the principal has it."""
        name = (handle or b"").decode("utf-8", "replace")
        with self._lock:
            found = self._known.get(name)
            if found is not None and found.by == by:
                del self._known[name]


def _check_length(size: int, what: str) -> None:
    most = present().statement_size
    if size > most:
        raise BadParameters(
            f"{what} {size:,} characters, at most {most:,} are allowed ('statement-size')",
            hint="put rows into a table, and join it",
        )


def rows_of(batch: pa.RecordBatch) -> list[Sequence[object]]:
    """Returns rows of parameters as values of Python."""
    if batch.num_columns == 0:
        return [()] * batch.num_rows
    columns = [python_values(c, f) for c, f in zip(_plain(batch), batch.schema, strict=True)]
    return list(zip(*columns, strict=True))


def _plain(batch: pa.RecordBatch) -> list[pa.Array]:
    """Returns columns without unions, in which some drivers send values of any type, and without
    dictionaries."""
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
