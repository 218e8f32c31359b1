"""Appends and reads of the embedded broker beside SQLite (WAL) and RocksDB, each message a row of its own there.

    .venv/bin/python -m benchmarks.broker [--seconds 0.5] [--folder DIR]

Rates are thousands of 180-byte messages a second of wall time, with that per CPU second behind it (threads of RocksDB
included). A batch is one atomic append or transaction. `epoch` syncs every batch to disk before it is acknowledged,
`interval` five times a second, `none` leaves it to the operating system; for SQLite that is synchronous = FULL, NORMAL
(at checkpoints) and OFF.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from sqlengine.broker.embedded import EmbeddedBroker, Fsync

MODES: tuple[Fsync, ...] = ("none", "interval", "epoch")
SYNCHRONOUS: dict[Fsync, str] = {"none": "OFF", "interval": "NORMAL", "epoch": "FULL"}
BATCHES = (1, 10, 100, 500, 1000)
SIZE = 180
READ_AT_ONCE = 10_000


class Log(ABC):
    """A log under test. Offsets count from 0."""

    @abstractmethod
    def __init__(self, folder: Path, mode: Fsync) -> None: ...

    @abstractmethod
    def append(self, offset: int, values: list[bytes]) -> None: ...

    @abstractmethod
    def read(self) -> int:
        """Reads everything in pieces of READ_AT_ONCE and returns the number of messages."""

    @abstractmethod
    def close(self) -> None: ...


class Ours(Log):
    def __init__(self, folder: Path, mode: Fsync) -> None:
        self.broker = EmbeddedBroker(folder, fsync=mode)
        self.broker.create_topic("t")

    def append(self, offset: int, values: list[bytes]) -> None:
        self.broker.append("t", 0, values, timestamp_ms=offset)

    def read(self) -> int:
        offset = 0
        while (records := self.broker.read("t", 0, offset, max_records=READ_AT_ONCE)) is not None:
            offset = records.next_offset
        return offset

    def close(self) -> None:
        self.broker.close()


class Sqlite(Log):
    def __init__(self, folder: Path, mode: Fsync) -> None:
        self.base = sqlite3.connect(folder / "log.db", isolation_level=None)
        self.base.execute("PRAGMA journal_mode = WAL")
        self.base.execute(f"PRAGMA synchronous = {SYNCHRONOUS[mode]}")
        self.base.execute("CREATE TABLE log (at INTEGER PRIMARY KEY, value BLOB NOT NULL)")

    def append(self, offset: int, values: list[bytes]) -> None:
        self.base.execute("BEGIN")
        self.base.executemany("INSERT INTO log VALUES (?, ?)", enumerate(values, offset))
        self.base.execute("COMMIT")

    def read(self) -> int:
        rows = self.base.execute("SELECT at, value FROM log ORDER BY at")
        count = 0
        while found := rows.fetchmany(READ_AT_ONCE):
            count += len(found)
        return count

    def close(self) -> None:
        self.base.close()


class Rocks(Log):
    def __init__(self, folder: Path, mode: Fsync) -> None:
        self.base = Rdict(str(folder), Options(raw_mode=True))
        self.options = WriteOptions()
        self.options.sync = mode == "epoch"
        self.sync_every = 0.2 if mode == "interval" else None
        self.synced = time.monotonic()

    def append(self, offset: int, values: list[bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        for at, value in enumerate(values, offset):
            batch.put(at.to_bytes(8, "big"), value)
        self.base.write(batch, self.options)
        if self.sync_every is not None and time.monotonic() - self.synced > self.sync_every:
            self.base.flush_wal(sync=True)
            self.synced = time.monotonic()

    def read(self) -> int:
        return sum(1 for _ in self.base.items())

    def close(self) -> None:
        self.base.close()


def measure(work: Callable[[], int]) -> tuple[int, str]:
    """What `work` returns, how many it did, and thousands of them a second of wall and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    count = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return count, f"{count / wall / 1000:,.0f} / {count / cpu / 1000:,.0f}"


def fill(log: Log, values: list[bytes], seconds: float) -> int:
    end = time.perf_counter() + seconds
    offset = 0
    while time.perf_counter() < end:
        log.append(offset, values)
        offset += len(values)
    return offset


def run(kind: type[Log], mode: Fsync, size: int, seconds: float, parent: Path) -> tuple[str, str]:
    """Rates of appends in batches of `size`, and of the second reading of all of it."""
    chance = random.Random(size)
    values = [chance.randbytes(SIZE) for _ in range(size)]
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        log = kind(Path(folder), mode)
        count, appended = measure(lambda: fill(log, values, seconds))
        found = log.read()
        again, read = measure(log.read)
        log.close()
    assert count == found == again, f"{kind.__name__} lost messages: {count} appended, {found} and {again} read"
    return appended, read


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=0.5, help="per cell")
    arguments.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to measure")
    options = arguments.parse_args()
    kinds: dict[str, type[Log]] = {"broker": Ours, "sqlite": Sqlite, "rocksdict": Rocks}
    table = Table(title=f"k messages/s, wall / CPU ({os.cpu_count()} cores)")
    for heading in ("fsync", "batch", *(f"{name} append" for name in kinds), *(f"{name} read" for name in kinds)):
        table.add_column(heading, justify="right")
    for mode in MODES:
        for size in BATCHES:
            cells = [run(kind, mode, size, options.seconds, options.folder) for kind in kinds.values()]
            table.add_row(mode, str(size), *(append for append, _ in cells), *(read for _, read in cells))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
