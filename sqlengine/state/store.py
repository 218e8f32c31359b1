"""Where checkpoints are kept: the interface of two calls, and stores that implement it; `topic_store` is another."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from parser.errors import ServiceError
from sqlengine.durability import Fsync
from sqlengine.format_numbers import check_number
from sqlengine.state.columns import IntArray
from sqlengine.state.table import BUCKET, SEQUENCE, Changes

if TYPE_CHECKING:
    from rocksdict import Rdict

STORE_FORMAT: Final = 1

# Anything that JSON can say; the store does not look into it.
Position: TypeAlias = Mapping[str, object]

# Below so many rows a table's deltas are not worth folding.
_FOLD_AT_LEAST = 4096
_ROWS_PER_BLOB = 65536


@dataclass(frozen=True)
class Loaded:
    """A checkpoint: where it stood, and the rows of every table in order of arrival, ready for `KeyedTable.load`."""

    position: Position
    tables: Mapping[str, pa.Table]


class CheckpointStore(Protocol):
    """Keeps the newest checkpoint. `put` and `drop` come from one thread at a time; `load` before the first of them."""

    def put(self, position: Position, changes: Mapping[str, Changes]) -> None:
        """Adds what changed since the last `put`, by table. It takes effect together with the position or not at all,
        and is safe against the death of the process when this returns. ServiceError when it cannot be written."""

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
    """The rows that are left of a table's parts, in order of arrival: of each identity what was said last, one sort for
    all."""
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

    def put(self, position: Position, changes: Mapping[str, Changes]) -> None:
        self._position = json.dumps(position)
        for name, change in changes.items():
            parts = self._parts.setdefault(name, [])
            parts.append(_Part(pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed])))
            if outgrown(parts[0].puts.num_rows, sum(p.puts.num_rows + p.removed.num_rows for p in parts[1:])):
                self._parts[name] = [_Part(fold(parts), parts[0].removed.slice(0, 0))]

    def load(self) -> Loaded | None:
        if self._position is None:
            return None
        return Loaded(json.loads(self._position), {name: fold(parts) for name, parts in self._parts.items()})

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
    """Checkpoints as blobs of Arrow data under keys, one or more per checkpoint and table, beside one head that tells of
    all; when a table's additions outgrow its rows they are folded into a new base, in the same atomic write. What keeps
    the blobs implements `_get`, `_write` and `close`. `name` is what errors call it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = _read_head(name, self._get(_HEAD))

    @abstractmethod
    def _get(self, key: bytes) -> bytes | None:
        """What stands under a key."""

    @abstractmethod
    def _write(self, puts: Mapping[bytes, bytes], gone: Collection[bytes]) -> None:
        """Puts some and forgets others, together or not at all. ServiceError when it cannot be written."""

    @abstractmethod
    def close(self) -> None: ...

    def put(self, position: Position, changes: Mapping[str, Changes]) -> None:
        tables = dict(self._head.tables)
        work = _Writes(_Head(position, tables, self._head.next_number))
        for name, change in changes.items():
            held = tables.get(name, [])
            if held and not change.puts.num_rows and not change.removed.num_rows:
                continue
            part = _Part(pa.Table.from_batches([change.puts]), pa.Table.from_batches([change.removed]))
            base = sum(b.rows for b in held if b.base)
            added = sum(b.rows for b in held if not b.base) + part.puts.num_rows + part.removed.num_rows
            if held and outgrown(base, added):
                tables[name] = self._fold(work, held, part)
            else:
                tables[name] = [*held, work.put(part, base=not held)]
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


class RocksStore(BlobStore):
    """Checkpoints in a RocksDB folder.

    `fsync`: 'none' is safe against the death of the process, the others against power loss too."""

    def __init__(self, folder: Path, fsync: Fsync = "none") -> None:
        self._folder = folder
        self._sync = fsync != "none"
        self._db = _open(folder)
        self._sound = True
        try:
            super().__init__(str(folder))
        except ServiceError:
            self._db.close()
            raise

    def close(self) -> None:
        with nullcontext() if self._sound else suppress(Exception):  # it tells of the failed write once more
            self._db.close()

    def _get(self, key: bytes) -> bytes | None:
        data: bytes | None = self._db.get(key)
        return data

    def _write(self, puts: Mapping[bytes, bytes], gone: Collection[bytes]) -> None:
        from rocksdict import WriteBatch, WriteOptions

        self._revive()
        batch = WriteBatch(raw_mode=True)
        for key in gone:
            batch.delete(key)
        for key, data in puts.items():
            batch.put(key, data)
        options = WriteOptions()
        options.sync = self._sync
        try:
            self._db.write(batch, options)
        except Exception as error:  # the library has no class of its own for what the disk says
            self._sound = False
            hint = "where the disk is full, free some space: it is tried again"
            raise ServiceError("the checkpoint could not be written", detail=str(error), hint=hint) from error

    def _revive(self) -> None:
        """After a write that failed RocksDB takes no other, even with space again, until it is opened anew."""
        if self._sound:
            return
        self.close()
        self._db = _open(self._folder)
        self._sound = True


def _open(folder: Path) -> Rdict:
    from rocksdict import Options, Rdict

    folder.mkdir(parents=True, exist_ok=True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(8 << 20)
    options.set_keep_log_file_num(2)
    try:
        return Rdict(str(folder), options)
    except Exception as error:  # as above
        raise ServiceError(
            f"checkpoint store '{folder}' cannot be opened",
            detail=str(error),
            hint="another server may be using the folder",
        ) from error


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
    tables = {name: [[b.number, b.rows, b.base] for b in blobs] for name, blobs in head.tables.items()}
    about = {"format": STORE_FORMAT, "position": head.position, "tables": tables, "next_number": head.next_number}
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
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
