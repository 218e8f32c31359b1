"""Checkpoint stores: what is stored, atomicity, and failures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from parser.errors import ServiceError
from parser.types import BIGINT, INT, STRING, Schema
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.state import store as store_module
from sqlengine.state.checkpoint import (
    CHECKPOINT_PAUSE_US,
    CHECKPOINT_ROWS,
    CHECKPOINTS,
    Checkpointer,
)
from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import CheckpointStore, Loaded, MemoryStore, Position
from sqlengine.state.table import KeyedTable, TableDelta
from sqlengine.state.topic_store import TopicStores
from tests.support import PATIENCE_S


def counts(name: str = "counts") -> KeyedTable:
    return KeyedTable(name, Schema.of(k=INT), Schema.of(n=BIGINT.with_nullable(False)), ("k",))


def count(table: KeyedTable, keys: list[int]) -> None:
    slots, _ = table.slots_for([pa.array(keys, pa.int32())], len(keys))
    table.columns["n"][slots] = table.columns["n"][slots] + 1
    table.mark(slots)


def forget(table: KeyedTable, keys: list[int]) -> None:
    table.remove(table.slots_for([pa.array(keys, pa.int32())], len(keys), insert=False)[0])


@pytest.fixture(params=["memory", "topic", "rocks", "rocks-fsync"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "topic":
        return TopicStores(EmbeddedBroker(tmp_path), lambda: 0).open("main")
    return RocksStore(tmp_path / "store", "epoch" if request.param == "rocks-fsync" else "none")


def test_store_holds_the_last_checkpoint(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_FOLD_AT_LEAST", 20)
    monkeypatch.setattr(store_module, "_ROWS_PER_BLOB", 16)
    first, second = counts(), counts("empty")
    checkpointer = Checkpointer(store)
    assert store.load() is None
    for epoch in range(30):
        count(first, list(range(epoch, epoch + 5)))
        forget(first, [epoch - 3] if epoch > 3 and epoch % 2 else [])
        assert checkpointer.begin(
            {"epoch": epoch, "offsets": {"a": 7}}, {"counts": first, "empty": second}
        )
        loaded = store.load()
        assert loaded is not None
        assert loaded.position == {"epoch": epoch, "offsets": {"a": 7}}
        assert loaded.tables["counts"].equals(first.dump())
        assert loaded.tables["empty"].num_rows == 0
    checkpointer.begin({"epoch": 30}, {"empty": second})
    loaded = store.load()
    assert loaded is not None
    assert list(loaded.tables) == ["empty"]
    store.close()


def test_rocks_store_lives_on_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_FOLD_AT_LEAST", 20)
    table = counts()
    for epoch in range(40):
        store = RocksStore(tmp_path)
        held = store.load()
        checkpointer = Checkpointer(store)
        if held is not None:
            table = counts()
            table.load(held.tables["counts"])
            checkpointer.adopt(held.position, {"counts": table})
        count(table, [1, 2, 3])
        checkpointer.begin({"epoch": epoch}, {"counts": table})
        blobs = [k for k in store._db.keys() if isinstance(k, bytes) and k.startswith(b"blob")]  # noqa: SIM118
        assert len(blobs) <= 1 + 20 // 3
        store.close()
    assert table.dump()["n"].to_pylist() == [40, 40, 40]


def test_a_table_has_few_blobs_however_little_changes(tmp_path: Path) -> None:
    """Those of a table of many rows of which few change, and of one of few rows; rows come and
    go."""
    large, small = counts(), counts("small")
    count(large, list(range(20_000)))
    store = RocksStore(tmp_path)
    checkpointer = Checkpointer(store)
    written = []
    for epoch in range(300):
        count(large, [epoch, 7 * epoch, 20_000 + epoch])
        forget(large, [5 * epoch, 20_000 + epoch - 3] if epoch > 3 else [])
        count(small, [1, epoch % 3])
        checkpointer.begin({"epoch": epoch}, {"counts": large, "small": small})
        blobs = store._head.tables
        assert all(sum(not b.base for b in of) <= 16 for of in blobs.values())
        written.append(
            sum(
                b.rows
                for b in blobs["counts"]
                if b.number >= store._head.next_number - 2 and not b.base
            )
        )
        if epoch % 50 == 49:
            held = store.load()
            assert held is not None
            assert held.tables["counts"].equals(large.dump())
            assert held.tables["small"].equals(small.dump())
    assert sum(written) < 8 * 5 * len(written)
    store.close()


def test_a_fold_holds_no_table_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State may fill most of the memory, and a checkpoint goes on within the rest."""
    monkeypatch.setattr(store_module, "_BYTES_AT_ONCE", 1 << 20)
    table = KeyedTable("texts", Schema.of(k=INT), Schema.of(text=STRING), ("k",))
    store, size = RocksStore(tmp_path), 500
    checkpointer, folded = Checkpointer(store), 0
    for epoch in range(40):  # each third one changes rows of before, too
        keys = pa.array(range(epoch * size - epoch % 3 * 50, (epoch + 1) * size), pa.int32())
        slots, _ = table.slots_for([keys], len(keys))
        table.write(slots, {"text": pa.array([f"{epoch:0>4000}"] * len(keys))})
        table.mark(slots)
        before = store._head.tables.get("texts", [])
        with arrow_memory() as pool:
            checkpointer.begin({"epoch": epoch}, {"texts": table})
        if before and before[0] != store._head.tables["texts"][0]:
            folded += 1
            assert pool.max_memory() < 16 << 20, f"of {table.bytes >> 20} MB in epoch {epoch}"
    held = store.load()
    assert folded == 3
    assert held is not None
    assert held.tables["texts"].equals(table.dump())
    store.close()


@contextmanager
def arrow_memory() -> Iterator[pa.MemoryPool]:
    """What Arrow allocates meanwhile."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(usual)


def test_store_of_another_format_is_refused(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    store._db.put(b"head", json.dumps({"format": 2}).encode())
    store.close()
    with pytest.raises(ServiceError, match="has format 2, this version reads 1") as caught:
        RocksStore(tmp_path)
    assert caught.value.hint == (
        "start the version that wrote it, or remove it: the jobs then start without their state"
    )


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    with pytest.raises(ServiceError, match="cannot be opened"):
        RocksStore(tmp_path)
    store.close()


class SlowDisk:
    """A store on a disk that waits until it is told to go on, and fails once."""

    def __init__(self) -> None:
        self.inner, self.go, self.full = MemoryStore(), Event(), True

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        assert self.go.wait(PATIENCE_S)
        if self.full:
            self.full = False
            raise ServiceError("the disk is full")
        self.inner.put(position, changes)

    def load(self) -> Loaded | None:
        return self.inner.load()

    def drop(self, table: str) -> None:
        self.inner.drop(table)

    def close(self) -> None: ...


def test_writing_is_beside_the_stream_and_its_errors_come_back() -> None:
    disk, table = SlowDisk(), counts()
    with ThreadPoolExecutor(1) as writer:
        checkpointer = Checkpointer(disk, writer)
        tables = {"counts": table}
        count(table, [1, 2, 3])
        assert checkpointer.changed_rows(tables) == 6  # three new, three marked
        assert checkpointer.begin({"epoch": 1}, tables)
        assert checkpointer.changed_rows(tables) == 0
        count(table, [3])
        assert not checkpointer.begin({"epoch": 2}, tables)
        disk.go.set()
        with pytest.raises(ServiceError, match="the disk is full"):
            checkpointer.wait()
        assert not checkpointer.stored
        forget(table, [1])
        assert checkpointer.begin({"epoch": 3}, tables)
        checkpointer.wait()
        assert checkpointer.stored == {"epoch": 3}
    loaded = disk.load()
    assert loaded is not None
    assert loaded.tables["counts"].equals(table.dump())
    assert table.dump()["n"].to_pylist() == [1, 2]
    assert checkpointer.counters[CHECKPOINTS] == 1
    assert checkpointer.counters[CHECKPOINT_ROWS] == 3 + 3  # key 1 is named among the removed
    assert checkpointer.counters[CHECKPOINT_PAUSE_US] > 0


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest"])
def test_a_damaged_store_is_named_with_the_remedy(tmp_path: Path, damage: str) -> None:
    folder, table = tmp_path / "graph", counts()
    store = RocksStore(folder)
    count(table, list(range(1_000)))
    Checkpointer(store).begin({"epoch": 1}, {"counts": table})
    store.close()
    RocksStore(folder).close()  # from its log to a file
    (file,) = folder.glob("*.sst")
    content = file.read_bytes()
    if damage == "manifest":
        next(folder.glob("MANIFEST-*")).write_bytes(b"garbage")
    elif damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            content[:50] if damage == "cut" else content[:100] + b"xxxx" + content[104:]
        )
    with pytest.raises(ServiceError, match="is damaged") as error:
        RocksStore(folder).load()
    assert "restore the data folder from a backup" in str(error.value.hint)
