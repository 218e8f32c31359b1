"""Parts of a stored table: what each puts and removes, what remains of them, and their bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlengine.state.columns import IntArray
from sqlengine.state.table import BUCKET, SEQUENCE

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class TablePart:
    """One delta of a table: keys to remove, then rows to put, both with the hidden columns."""

    puts: pa.Table
    removed: pa.Table


@dataclass(frozen=True)
class Identities:
    """The identities of the rows of a part: arrival number and bucket as one number."""

    puts: IntArray
    removed: IntArray


def remaining(parts: Sequence[Identities]) -> list[IntArray]:
    """Returns for each part which of its rows remain after all were applied in order."""
    ids = np.concatenate([ids for part in parts for ids in (part.removed, part.puts)])
    # A stable sort by identity puts a row's versions beside each other in the order of the parts:
    # the last one decides whether the row exists, and where its values are.
    order = np.argsort(ids, kind="stable")
    last = np.ones(len(ids), np.bool_)
    last[:-1] = np.diff(ids[order]) != 0
    stays = np.zeros(len(ids), np.bool_)
    stays[order[last]] = True
    ends = np.cumsum([n for part in parts for n in (len(part.removed), len(part.puts))])
    return [np.flatnonzero(part) for part in np.split(stays, ends[:-1])[1::2]]


def fold(parts: Sequence[TablePart]) -> pa.Table:
    """Returns the rows that remain after a table's parts were applied in order, in order of
    arrival."""
    rows = pa.concat_tables(_remaining_rows(parts)).combine_chunks()
    # Identities begin with the arrival number.
    ids = _ids(rows)
    return rows if (np.diff(ids) > 0).all() else rows.take(pa.array(np.argsort(ids)))


def merge_parts(parts: Sequence[TablePart]) -> TablePart:
    """Merges consecutive parts into one."""
    removed = pa.concat_tables([part.removed for part in parts])
    unique = removed.group_by(removed.column_names).aggregate([])
    return TablePart(pa.concat_tables(_remaining_rows(parts)), unique)


def pieces(
    sources: Iterable[tuple[TablePart, IntArray]], most_rows: int, most_bytes: int
) -> Iterator[pa.Table]:
    """Yields these rows of all parts, about so many rows or bytes at a time; at least one table,
    which may be empty. Takes one part after the other."""
    held: list[pa.Table] = []
    for part, rows in sources:
        width = max(1, part.puts.nbytes // max(1, part.puts.num_rows))
        step = max(1, min(most_rows, most_bytes // width))
        for start in range(0, len(rows) or 1, step):
            piece = _taken(part.puts, rows[start : start + step])
            if held and not piece.num_rows:
                continue
            if sum(table.num_rows for table in held) >= step:
                yield pa.concat_tables(held)
                held = []
            held.append(piece)
    yield pa.concat_tables(held)


def identities(part: TablePart) -> Identities:
    return Identities(_ids(part.puts), _ids(part.removed))


def identities_in(data: bytes) -> Identities:
    """Returns the identities of an encoded part, whose other columns are not read."""
    return Identities(*(_ids(_read(half, SEQUENCE, BUCKET)) for half in _halves(data)))


def encode(part: TablePart) -> bytes:
    puts = _ipc(part.puts)
    return _LENGTH.pack(len(puts)) + puts + _ipc(part.removed)


def decode(data: bytes) -> TablePart:
    return TablePart(*map(_read, _halves(data)))


def _halves(data: bytes) -> tuple[memoryview, memoryview]:
    (length,) = _LENGTH.unpack_from(data)
    view = memoryview(data)[_LENGTH.size :]
    return view[:length], view[length:]


def _read(stream: memoryview, *columns: str) -> pa.Table:
    """Reads all columns, unless some are named."""
    schema = pa.ipc.open_stream(stream).schema
    wanted = [schema.get_field_index(name) for name in columns or schema.names]
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    return pa.ipc.open_stream(stream, options=options).read_all()


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _remaining_rows(parts: Sequence[TablePart]) -> list[pa.Table]:
    rows = remaining([identities(part) for part in parts])
    return [_taken(part.puts, kept) for part, kept in zip(parts, rows, strict=True)]


def _taken(table: pa.Table, rows: IntArray) -> pa.Table:
    """Returns some of the rows, given in their order. They are copied only where others between
    them are left out."""
    if not len(rows):
        return table.slice(0, 0)
    first, count = int(rows[0]), int(rows[-1] - rows[0]) + 1
    between = table.slice(first, count)
    return between if len(rows) == count else between.take(pa.array(rows - first))


def _ids(rows: pa.Table) -> IntArray:
    ids: IntArray = rows[SEQUENCE].to_numpy() * 256 + rows[BUCKET].to_numpy()
    return ids
