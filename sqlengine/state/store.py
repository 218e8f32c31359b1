"""Checkpoint stores: the interface, and a store of blobs on which `rocks_store` and `topic_store`
are built."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from parser.errors import ServiceError
from sqlengine.state.parts import (
    TablePart,
    decode,
    encode,
    fold,
    identities,
    identities_in,
    merge_parts,
    pieces,
    remaining,
)
from sqlengine.state.table import TableDelta
from sqlengine.system.format_numbers import check_number

STORE_FORMAT: Final = 1

# Any JSON value; opaque to the store.
Position: TypeAlias = Mapping[str, object]

# A table is folded once its deltas have more rows than its base, and more than _FOLD_AT_LEAST. It
# has at most _MOST_DELTAS deltas, however small: each is a blob of its own, listed in every head.
_FOLD_AT_LEAST = 4096
_MOST_DELTAS = 16
# A blob of a base has so many rows and bytes, or a little more.
_ROWS_PER_BLOB = 65536
_BYTES_AT_ONCE = 16 << 20


@dataclass(frozen=True)
class Loaded:
    """A checkpoint: its position, and the rows of every table in order of arrival for
    `KeyedTable.load`."""

    position: Position
    tables: Mapping[str, pa.Table]


class CheckpointStore(Protocol):
    """Keeps the newest checkpoint.

    `load` comes before the first `put` or `drop`, which come from one thread at a time.
    """

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        """Stores the position and what changed in each table since the last `put`, atomically.

        When this returns, the checkpoint survives the death of the process. ServiceError when it
        cannot be written.
        """

    def load(self) -> Loaded | None:
        """Returns the checkpoint that was put last; None when there is none."""

    def drop(self, table: str) -> None:
        """Deletes a table; an unknown one is no error."""

    def close(self) -> None: ...


def deltas_to_merge(rows: Sequence[int], own: int) -> int:
    """Returns how many of the last deltas, with these numbers of rows, are merged with a new one.

    Half of them, and further each one that is no larger than all after it together. As in a
    log-structured merge tree, a row is rewritten only a few times.
    """
    count = len(rows) // 2
    total = own + sum(rows[len(rows) - count :])
    while count < len(rows) and rows[-count - 1] <= total:
        total += rows[-count - 1]
        count += 1
    return count


def should_fold(base_rows: int, delta_rows: int) -> bool:
    """True if the deltas have more rows than their base."""
    return delta_rows > max(base_rows, _FOLD_AT_LEAST)


class MemoryStore:
    """A store in memory for simulated runs; checkpoints live as long as the object."""

    def __init__(self) -> None:
        self._position: str | None = None
        self._parts: dict[str, list[TablePart]] = {}

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        self._position = json.dumps(position)
        for name, change in changes.items():
            parts = self._parts.setdefault(name, [])
            parts.append(
                TablePart(
                    pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed])
                )
            )
            if should_fold(
                parts[0].puts.num_rows, sum(p.puts.num_rows + p.removed.num_rows for p in parts[1:])
            ):
                self._parts[name] = [TablePart(fold(parts), parts[0].removed.slice(0, 0))]

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
    """A stored part of a table: its base (the rows at the last fold), or a delta."""

    number: int
    rows: int
    base: bool


@dataclass
class _Head:
    """The record that makes a checkpoint valid: it lists the blobs of every table."""

    position: Position | None = None
    tables: dict[str, list[_Blob]] = field(default_factory=dict)
    next_number: int = 0


class _Writes:
    """The blobs that one checkpoint writes and deletes, and its new head."""

    def __init__(self, head: _Head) -> None:
        self.head = head
        self.puts: dict[bytes, bytes] = {}
        self.deletes: list[bytes] = []

    def put(self, part: TablePart, *, base: bool) -> _Blob:
        blob = _Blob(self.head.next_number, part.puts.num_rows + part.removed.num_rows, base)
        self.head.next_number += 1
        self.puts[_key(blob.number)] = encode(part)
        return blob

    def delete(self, blobs: Sequence[_Blob]) -> None:
        self.deletes += [_key(blob.number) for blob in blobs]


class BlobStore(ABC):
    """Keeps checkpoints as blobs of Arrow data under keys, and one head that lists them.

    Each checkpoint adds one or more blobs for each changed table. When a table's deltas outgrow its
    base, they are folded into a new base in the same atomic write. Subclasses implement `_get`,
    `_write` and `close` over a key-value store; `name` is the store's name in errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = _read_head(name, self._get(_HEAD))

    @abstractmethod
    def _get(self, key: bytes) -> bytes | None:
        """Returns the value of a key; None when there is none."""

    @abstractmethod
    def _write(self, puts: Mapping[bytes, bytes], deletes: Collection[bytes]) -> None:
        """Puts and deletes keys, atomically. ServiceError when it cannot be written."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def head_bytes(self) -> int:
        """The bytes that each checkpoint writes besides its changes."""
        return len(_encode_head(self._head))

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        tables = dict(self._head.tables)
        work = _Writes(_Head(position, tables, self._head.next_number))
        for name, change in changes.items():
            blobs = tables.get(name, [])
            # An unchanged table writes nothing; a new one writes an empty base, so that it exists.
            if blobs and not change.puts.num_rows and not change.removed.num_rows:
                continue
            part = TablePart(
                pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed])
            )
            base = sum(b.rows for b in blobs if b.base)
            added = (
                sum(b.rows for b in blobs if not b.base)
                + part.puts.num_rows
                + part.removed.num_rows
            )
            if blobs and should_fold(base, added):
                tables[name] = self._fold(work, blobs, part)
            else:
                tables[name] = self._add(work, blobs, part)
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
        blobs = tables.pop(table)
        work = _Writes(_Head(self._head.position, tables, self._head.next_number))
        work.delete(blobs)
        self._commit(work)

    def _add(self, work: _Writes, blobs: Sequence[_Blob], part: TablePart) -> list[_Blob]:
        """Adds a part as a delta; merges it with the last deltas where there are too many."""
        deltas = [blob for blob in blobs if not blob.base]
        if len(deltas) < _MOST_DELTAS:
            return [*blobs, work.put(part, base=not blobs)]
        count = deltas_to_merge(
            [blob.rows for blob in deltas], part.puts.num_rows + part.removed.num_rows
        )
        work.delete(deltas[-count:])
        merged = merge_parts([*self._parts(deltas[-count:]), part])
        return [*blobs[:-count], work.put(merged, base=False)]

    def _fold(self, work: _Writes, blobs: Sequence[_Blob], part: TablePart) -> list[_Blob]:
        """Replaces the base and all deltas by a new base: blob by blob, so that memory never holds
        the rows of the whole table once more."""
        known = [*(identities_in(self._data(blob)) for blob in blobs), identities(part)]
        kept = zip([*blobs, None], remaining(known), strict=True)
        sources = ((part if b is None else decode(self._data(b)), rows) for b, rows in kept)
        made: list[_Blob] = []
        for rows in pieces(sources, _ROWS_PER_BLOB, _BYTES_AT_ONCE):
            made.append(work.put(TablePart(rows, part.removed.slice(0, 0)), base=True))
            self._relieve(work)
        work.delete(blobs)
        return made

    def _relieve(self, work: _Writes) -> None:
        """Writes blobs before their checkpoint where they are large. No head lists them yet: if it
        never does, their numbers are given again."""
        if sum(map(len, work.puts.values())) >= _BYTES_AT_ONCE:
            self._write(work.puts, ())
            work.puts.clear()

    def _commit(self, work: _Writes) -> None:
        self._write({**work.puts, _HEAD: _encode_head(work.head)}, work.deletes)
        # After a write that failed, the old head and its blobs are still what is stored.
        self._head = work.head

    def _parts(self, blobs: Sequence[_Blob]) -> Iterator[TablePart]:
        return (decode(self._data(blob)) for blob in blobs)

    def _data(self, blob: _Blob) -> bytes:
        data = self._get(_key(blob.number))
        if data is None:
            raise ServiceError(f"checkpoint store '{self._name}' has lost blob {blob.number}")
        return data


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
