"""State of a million keys: how long the stream waits for a checkpoint, what is written beside it,
and recovery."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.page import Section, Table
from parser.types import BIGINT, STRING, Schema
from planner.graph.takeover import Operation
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.snapshots import savepoint_files as files
from sqlengine.snapshots.savepoint_files import SavedOperation, SavedTable, Savepoint
from sqlengine.state.checkpoint import CHECKPOINT_PAUSE_US, CHECKPOINT_WRITE_US, Checkpointer
from sqlengine.state.columns import IntArray
from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import BlobStore, CheckpointStore
from sqlengine.state.table import KeyedTable
from sqlengine.state.topic_store import TopicStores
from sqlengine.system.disk import MACHINE

KEYS = 1_000_000
TABLES, MANY = 30, 1_000
_NUMBER = BIGINT.with_nullable(False)
Open = Callable[[Path], CheckpointStore]


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        rows = [
            row
            for title, opened in _STORES.items()
            for row in _checkpoints(title, opened, folder / title)
        ]
        recovery = [_recovery(title, opened, folder / title) for title, opened in _STORES.items()]
        recovery.append(_savepoint(folder / "savepoint"))
        small = [
            _small(title, opened, folder / f"{title}-small") for title, opened in _STORES.items()
        ]
    about = (
        f"A table as `SELECT k, COUNT(*), SUM(v) … GROUP BY k` has it, with {KEYS:,} keys of 12"
        " characters. The pause is what the stream waits for: changed rows are copied between two"
        " epochs. Another thread writes them. CPU seconds of the thread at work, without fsync."
    )
    tables = [
        Table("Checkpoints", ["", "rows", "pause ms", "written beside it ms", "MB on disk"], rows),
        Table(
            "From disk to a table that works",
            ["", "rows", "read ms", "table and index ms"],
            recovery,
        ),
        Table(
            f"{TABLES} tables of few rows, {MANY:,} checkpoints of two rows in each",
            ["", "first 100: ms each", "last 100: ms each", "told of in each, kB", "read ms"],
            small,
        ),
    ]
    notes = (
        (
            "A checkpoint costs what has changed since the last one. By default one begins after"
            " 100,000 changed rows or 10 s."
        ),
        (
            "When what was added outgrows what it was added to, it is folded into one, in the"
            " thread that writes."
        ),
        (
            "Of a table there are at most 16 additions: the latest become one with each that comes"
            " behind them."
        ),
        "To encode and hash the keys is most of a recovery: 1 µs a key.",
    )
    return Section("state", "Checkpoints and recovery with a million keys", about, tables, notes)


def _table() -> KeyedTable:
    return KeyedTable("groups", Schema.of(k=STRING), Schema.of(rows=_NUMBER, total=_NUMBER), ("k",))


def _touch(table: KeyedTable, numbers: IntArray) -> None:
    """Rows of these keys, in batches as they are read."""
    for start in range(0, len(numbers), 4096):
        some = numbers[start : start + 4096]
        keys = pa.array([f"key-{n:08}" for n in some.tolist()], pa.string())
        slots, _ = table.slots_for([keys], len(some))
        table.columns["rows"].view(np.int64)[slots] += 1
        table.mark(slots)


def _broker_store(folder: Path) -> CheckpointStore:
    return TopicStores(EmbeddedBroker(folder), lambda: 0).open("main")


_STORES: dict[str, Open] = {"RocksDB": RocksStore, "topic": _broker_store}


@contextmanager
def _opened(opened: Open, folder: Path) -> Iterator[CheckpointStore]:
    store = opened(folder)
    try:
        yield store
    finally:
        store.close()
        broker = getattr(store, "_broker", None)
        if isinstance(broker, EmbeddedBroker):
            broker.close()


def _checkpoints(title: str, opened: Open, folder: Path) -> Iterator[list[str]]:
    table, random = _table(), np.random.default_rng(7)
    steps = {
        "all, for the first time": KEYS,
        "1 %": KEYS // 100,
        "10 %": KEYS // 10,
        "all again, folded": KEYS,
    }
    with _opened(opened, folder) as store:
        checkpointer = Checkpointer(store, clock=time.thread_time)
        for number, (what, count) in enumerate(steps.items()):
            _touch(
                table,
                np.arange(KEYS) if count == KEYS else random.choice(KEYS, count, replace=False),
            )
            before = dict(checkpointer.counters)
            checkpointer.begin({"epoch": number}, {"groups": table})
            spent = {
                k: checkpointer.counters[k] - before.get(k, 0)
                for k in (CHECKPOINT_PAUSE_US, CHECKPOINT_WRITE_US)
            }
            pause, write = (
                f"{spent[k] / 1000:.0f}" for k in (CHECKPOINT_PAUSE_US, CHECKPOINT_WRITE_US)
            )
            size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6
            yield [f"{title}: {what}", f"{count:,}", pause, write, f"{size:.0f}"]


def _small(title: str, opened: Open, folder: Path) -> list[str]:
    tables = {f"{n}": _table() for n in range(TABLES)}
    spent = []
    with _opened(opened, folder) as store:
        checkpointer = Checkpointer(store)
        for number in range(MANY):
            for table in tables.values():
                _touch(table, np.array([number % 7, 7]))
            start = time.thread_time()
            checkpointer.begin({"epoch": number}, tables)
            spent.append(time.thread_time() - start)
    start = time.thread_time()
    with _opened(opened, folder) as store:
        assert isinstance(store, BlobStore)
        assert store.load() is not None
        read, told = time.thread_time() - start, store.head_bytes
    first, last = (f"{sum(some) * 10:.1f}" for some in (spent[:100], spent[-100:]))
    return [title, first, last, f"{told / 1000:.0f}", f"{read * 1000:.0f}"]


def _recovery(title: str, opened: Open, folder: Path) -> list[str]:
    start = time.thread_time()
    with _opened(opened, folder) as store:
        loaded = store.load()
    read = time.thread_time() - start
    assert loaded is not None
    return [
        f"{title}: recovery",
        f"{KEYS:,}",
        f"{read * 1000:.0f}",
        f"{_load(loaded.tables['groups']) * 1000:.0f}",
    ]


def _savepoint(folder: Path) -> list[str]:
    table = _table()
    _touch(table, np.arange(KEYS))
    saved = SavedTable("groups", table.layout, len(table))
    operation = SavedOperation(
        Operation("1", "1", "GroupAggregate", "GroupAggregate", "1"), True, (saved,)
    )
    told = Savepoint("job", 1, "", "", "main", 1, 0, (), (operation,))
    start = time.thread_time()
    written = files.write(MACHINE, folder, told, {(0, "groups"): table.dump()})
    pause = time.thread_time() - start
    start = time.thread_time()
    rows = files.read_rows(
        MACHINE,
        replace(files.read(MACHINE, folder), path=str(folder)),
        written.operations[0].tables[0],
    )
    read = time.thread_time() - start
    title = f"savepoint (written in {pause * 1000:.0f} ms, {written.bytes / 1e6:.0f} MB)"
    return [title, f"{KEYS:,}", f"{read * 1000:.0f}", f"{_load(rows) * 1000:.0f}"]


def _load(rows: pa.Table) -> float:
    table = _table()
    start = time.thread_time()
    table.load(rows)
    spent = time.thread_time() - start
    assert len(table) == KEYS
    return spent
