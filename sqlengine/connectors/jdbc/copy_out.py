"""Rows that PostgreSQL gives by COPY, as CSV: made columns of without a value of Python, as far as
their types allow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Final, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from xxhash import xxh64

from parser.errors import ExecutionError
from parser.types import Column, DataType, Root
from planner.catalog import Table
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.loading import Loaded, joined
from sqlengine.connectors.jdbc.values import NUMBERS, cannot_hold, checked, read

_PIECE: Final = 4 << 20  # bytes that are made columns at a time
_PLAIN: Final = frozenset((*NUMBERS, Root.BOOLEAN, Root.DATE))
_WRONG: Final = re.compile(r"In CSV column #(\d+): (?:CSV conversion error to [^:]+: )?(.*)")


class _Copy(Protocol):
    def __iter__(self) -> Iterator[memoryview]: ...


class _CopyCursor(Protocol):
    def copy(self, statement: str, /) -> AbstractContextManager[_Copy]: ...


def _of_json(text: str) -> object:
    return json.loads(text, parse_float=Decimal, parse_int=_whole)


def _whole(text: str) -> int | float:
    """A number of JSON without a fraction, which may be a zero below zero of a real one."""
    return -0.0 if text == "-0" else int(text)


def load_copy(cursor: Cursor, text: str, table: Table) -> Loaded:
    """Returns the rows that a SELECT gives. ExecutionError for a value that its column cannot
    hold."""
    pieces: list[Mapping[str, pa.Array]] = []
    hashed, count = xxh64(), 0
    for piece in _pieces(cast("_CopyCursor", cursor), text):
        hashed.update(piece)
        pieces.append(columns_of_csv(piece, table))
        count += len(next(iter(pieces[-1].values())))
    return Loaded(joined(pieces, table), count, hashed.hexdigest())


def _pieces(cursor: _CopyCursor, text: str) -> Iterator[bytes]:
    """Yields whole rows, some megabytes at a time."""
    waiting: list[bytes] = []
    size = 0
    with cursor.copy(f"COPY ({text}) TO STDOUT WITH (FORMAT csv)") as copy:
        for row in copy:
            waiting.append(bytes(row))
            size += len(row)
            if size >= _PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def columns_of_csv(
    piece: bytes, table: Table, arrays: Callable[[str], object] = _of_json
) -> dict[str, pa.Array]:
    """Returns the columns of rows in CSV, in which NULL alone is without quotes, and whose `arrays`
    are read so. ExecutionError for a value that its column cannot hold."""
    if not piece:
        return joined([], table)
    names = [c.name for c in table.physical]
    types = {c.name: _type_in_csv(c.type) for c in table.physical}
    name = table.options["table-name"]
    try:
        found = csv.read_csv(
            pa.BufferReader(piece),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(piece) + 1),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                true_values=["t", "1"],
                false_values=["f", "0"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _unfitting(str(error), table) from None
    return {
        c.name: _converted(a.combine_chunks(), c, name, arrays)
        for a, c in zip(found.columns, table.physical, strict=True)
    }


def _type_in_csv(kind: DataType) -> pa.DataType:
    return kind.arrow if kind.root in _PLAIN else pa.string()


def _unfitting(words: str, table: Table) -> ExecutionError:
    found = _WRONG.search(words)
    if found is None:
        return ExecutionError(
            f"rows of table '{table.options['table-name']}' cannot be read", detail=words
        )
    column = table.physical.columns[int(found[1])]
    return cannot_hold(column, table.options["table-name"], found[2])


def _converted(
    array: pa.Array, column: Column, table: str, arrays: Callable[[str], object]
) -> pa.Array:
    """Returns a column of its type from what CSV gave."""
    kind = column.type
    if array.type == kind.arrow:
        return checked(array, column, table)
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        # In UTC, which the connection has asked for.
        array = pc.replace_substring_regex(array, r"\+00$", "")
    values = array.to_pylist()
    if kind.is_binary:
        values = [None if v is None else bytes.fromhex(v[2:]) for v in values]
    elif kind.root is Root.ARRAY:
        values = [None if v is None else arrays(v) for v in values]
    return read(values, column, table)
