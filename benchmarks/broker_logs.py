"""The logs that benchmarks.broker measures: ours, and others used as one, each message a row of its
own there."""

from __future__ import annotations

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.system.durability import Fsync

SYNCHRONOUS: dict[Fsync, str] = {"none": "OFF", "interval": "NORMAL", "epoch": "FULL"}
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


class Disk(Log):
    """The same bytes in one file, nothing else: what the disk itself can do."""

    def __init__(self, folder: Path, mode: Fsync) -> None:
        self.file = os.open(folder / "log", os.O_RDWR | os.O_CREAT)
        self.synced = mode == "epoch"
        self.size = self.count = 0

    def append(self, offset: int, values: list[bytes]) -> None:
        self.size += os.pwrite(self.file, b"".join(values), self.size)
        self.count = offset + len(values)
        if self.synced:
            os.fdatasync(self.file)

    def read(self) -> int:
        for position in range(0, self.size, 8 << 20):
            os.pread(self.file, 8 << 20, position)
        return self.count

    def close(self) -> None:
        os.close(self.file)


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
