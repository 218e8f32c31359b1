"""Where checkpoints are kept: the interface of two calls, and what stores have in common;
`rocks_store` and `topic_store` keep them."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from parser.errors import ServiceError
from sqlengine.state.columns import IntArray
from sqlengine.state.table import BUCKET, SEQUENCE, TableDelta
from sqlengine.system.format_numbers import check_number

STORE_FORMAT: Final = 1

# Anything that JSON can say; the store does not look into it.
Position: TypeAlias = Mapping[str, object]

# Below so many rows a table's deltas are not worth folding; so many there are at most, whatever
# they weigh: each is read on its own, and told of with each checkpoint.
_FOLD_AT_LEAST = 4096
_MOST_DELTAS = 16
_ROWS_PER_BLOB = 65536


@dataclass(frozen=True)
class Loaded:
    """A checkpoint: where it stood, and the rows of every table in order of arrival, ready for
    `KeyedTable.load`."""

    position: Position
    tables: Mapping[str, pa.Table]


class CheckpointStore(Protocol):
    """Keeps the newest checkpoint. `put` and `drop` come from one thread at a time; `load` before
    the first of them."""

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        """Adds what changed since the last `put`, by table. It takes effect together with the
        position or not at all, and is safe against the death of the process when this returns.
        ServiceError when it cannot be written."""

    def load(self) -> Loaded | None:
        """The checkpoint that was put last; None when there is none."""

    def drop(self, table: str) -> None:
        """Forgets a table. One that is not there is no error."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Part:
    """One addition to a table: keys removed, then rows put."""

    puts: pa.Table
    removed: pa.Table


def fold(parts: Sequence[_Part]) -> pa.Table:
    """The rows that are left of a table's parts, in order of arrival: of each identity what was
    said last, one sort for all."""
    puts = pa.concat_tables([part.puts for part in parts]).combine_chunks()
    said: list[IntArray] = []
    rows: list[IntArray] = []  # where the row is, -1 for one that is gone
    start = 0
    for part in parts:
        said += [_ids(part.removed), _ids(part.puts)]
        rows += [np.full(part.removed.num_rows, -1), np.arange(start, start + part.puts.num_rows)]
        start += part.puts.num_rows
    ids = np.concatenate(said)
    order = np.argsort(ids, kind="stable")
    last = np.ones(len(ids), np.bool_)
    last[:-1] = np.diff(ids[order]) != 0
    left = np.concatenate(rows)[order[last]]
    return puts.take(pa.array(left[left >= 0]))


def together(parts: Sequence[_Part]) -> _Part:
    """Parts that follow each other as one."""
    removed = pa.concat_tables([part.removed for part in parts])
    return _Part(fold(parts), removed.group_by(removed.column_names).aggregate([]))


def latest(rows: Sequence[int], own: int) -> int:
    """How many of additions with so many rows become one with that which comes: half of them, and
    then each that is no larger than all behind it. So a row is written again only a few times."""
    count = len(rows) // 2
    total = own + sum(rows[len(rows) - count :])
    while count < len(rows) and rows[-count - 1] <= total:
        total += rows[-count - 1]
        count += 1
    return count


def _ids(rows: pa.Table) -> IntArray:
    """A row's identity in its table: its arrival number and its bucket."""
    ids: IntArray = rows[SEQUENCE].to_numpy() * 256 + rows[BUCKET].to_numpy()
    return ids


def outgrown(base_rows: int, delta_rows: int) -> bool:
    """Whether additions weigh more than what they were added to."""
    return delta_rows > max(base_rows, _FOLD_AT_LEAST)


class MemoryStore:
    """A store for simulated runs: as long as the object lives, so do its checkpoints."""

    def __init__(self) -> None:
        self._position: str | None = None
        self._parts: dict[str, list[_Part]] = {}

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        self._position = json.dumps(position)
        for name, change in changes.items():
            parts = self._parts.setdefault(name, [])
            parts.append(
                _Part(pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed]))
            )
            if outgrown(
                parts[0].puts.num_rows, sum(p.puts.num_rows + p.removed.num_rows for p in parts[1:])
            ):
                self._parts[name] = [_Part(fold(parts), parts[0].removed.slice(0, 0))]

    def load(self) -> Loaded | None:
        if self._position is None:
            return None
        return Loaded(
            json.loads(self._position), {name: fold(parts) for name, parts in self._parts.items()}
        )

    def drop(self, table: str) -> None:
        self._parts.pop(table, None)

    def close(self) -> None: ...


@dataclass
class _Blob:
    """A stored part: `base` ones hold what was left when the table was folded."""

    number: int
    rows: int
    base: bool


@dataclass
class _Head:
    """The one record that makes a checkpoint: all else is found from it."""

    position: Position | None = None
    tables: dict[str, list[_Blob]] = field(default_factory=dict)
    next_number: int = 0


class _Writes:
    """What one checkpoint writes, and the head that it leaves."""

    def __init__(self, head: _Head) -> None:
        self.head = head
        self.puts: dict[bytes, bytes] = {}
        self.gone: list[bytes] = []

    def put(self, part: _Part, *, base: bool) -> _Blob:
        blob = _Blob(self.head.next_number, part.puts.num_rows + part.removed.num_rows, base)
        self.head.next_number += 1
        self.puts[_key(blob.number)] = _encode(part)
        return blob

    def forget(self, blobs: Sequence[_Blob]) -> None:
        self.gone += [_key(blob.number) for blob in blobs]


class BlobStore(ABC):
    """Checkpoints as blobs of Arrow data under keys, one or more per checkpoint and table, beside
    one head that tells of all; when a table's additions outgrow its rows they are folded into a new
    base, in the same atomic write. What keeps the blobs implements `_get`, `_write` and `close`.
    `name` is what errors call it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = _read_head(name, self._get(_HEAD))

    @abstractmethod
    def _get(self, key: bytes) -> bytes | None:
        """What stands under a key."""

    @abstractmethod
    def _write(self, puts: Mapping[bytes, bytes], gone: Collection[bytes]) -> None:
        """Puts some and forgets others, together or not at all. ServiceError when it cannot be
        written."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def head_bytes(self) -> int:
        """How much each checkpoint writes besides what has changed."""
        return len(_encode_head(self._head))

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        tables = dict(self._head.tables)
        work = _Writes(_Head(position, tables, self._head.next_number))
        for name, change in changes.items():
            held = tables.get(name, [])
            if held and not change.puts.num_rows and not change.removed.num_rows:
                continue
            part = _Part(
                pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed])
            )
            base = sum(b.rows for b in held if b.base)
            added = (
                sum(b.rows for b in held if not b.base) + part.puts.num_rows + part.removed.num_rows
            )
            if held and outgrown(base, added):
                tables[name] = self._fold(work, held, part)
            else:
                tables[name] = self._add(work, held, part)
        self._commit(work)

    def load(self) -> Loaded | None:
        if self._head.position is None:
            return None
        tables = {name: fold(list(self._parts(blobs))) for name, blobs in self._head.tables.items()}
        return Loaded(self._head.position, tables)

    def drop(self, table: str) -> None:
        if table not in self._head.tables:
            return
        tables = dict(self._head.tables)
        gone = tables.pop(table)
        work = _Writes(_Head(self._head.position, tables, self._head.next_number))
        work.forget(gone)
        self._commit(work)

    def _add(self, work: _Writes, held: Sequence[_Blob], part: _Part) -> list[_Blob]:
        deltas = [blob for blob in held if not blob.base]
        if len(deltas) < _MOST_DELTAS:
            return [*held, work.put(part, base=not held)]
        count = latest([blob.rows for blob in deltas], part.puts.num_rows + part.removed.num_rows)
        work.forget(deltas[-count:])
        whole = together([*self._parts(deltas[-count:]), part])
        return [*held[:-count], work.put(whole, base=False)]

    def _fold(self, work: _Writes, held: Sequence[_Blob], part: _Part) -> list[_Blob]:
        rows = fold([*self._parts(held), part])
        nothing = part.removed.slice(0, 0)
        work.forget(held)
        starts = range(0, max(rows.num_rows, 1), _ROWS_PER_BLOB)
        return [work.put(_Part(rows.slice(s, _ROWS_PER_BLOB), nothing), base=True) for s in starts]

    def _commit(self, work: _Writes) -> None:
        self._write({**work.puts, _HEAD: _encode_head(work.head)}, work.gone)
        self._head = work.head

    def _parts(self, blobs: Sequence[_Blob]) -> Iterator[_Part]:
        for blob in blobs:
            data = self._get(_key(blob.number))
            if data is None:
                raise ServiceError(f"checkpoint store '{self._name}' has lost blob {blob.number}")
            yield _decode(data)


def _key(number: int) -> bytes:
    return b"blob" + number.to_bytes(8, "big")


def _read_head(name: str, data: bytes | None) -> _Head:
    if data is None:
        return _Head()
    head = json.loads(data)
    hint = "start the version that wrote it, or remove it: the jobs then start without their state"
    check_number(head["format"], STORE_FORMAT, f"checkpoint store '{name}'", hint=hint)
    tables = {name: [_Blob(*blob) for blob in blobs] for name, blobs in head["tables"].items()}
    return _Head(head["position"], tables, head["next_number"])


def _encode_head(head: _Head) -> bytes:
    tables = {
        name: [[b.number, b.rows, b.base] for b in blobs] for name, blobs in head.tables.items()
    }
    about = {
        "format": STORE_FORMAT,
        "position": head.position,
        "tables": tables,
        "next_number": head.next_number,
    }
    return json.dumps(about).encode()


_HEAD = b"head"
_LENGTH = struct.Struct("<Q")


def _encode(part: _Part) -> bytes:
    puts = _ipc(part.puts)
    return _LENGTH.pack(len(puts)) + puts + _ipc(part.removed)


def _decode(data: bytes) -> _Part:
    (length,) = _LENGTH.unpack_from(data)
    view = memoryview(data)
    puts, removed = view[_LENGTH.size : _LENGTH.size + length], view[_LENGTH.size + length :]
    return _Part(pa.ipc.open_stream(puts).read_all(), pa.ipc.open_stream(removed).read_all())


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
