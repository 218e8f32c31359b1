"""A log that is written and rotated, and a reader of it that is killed and recovers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from sqlengine.connectors.base import Source
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import Clock, environment, table


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": _zstd,
}


def followed(path: Path, clock: Clock | None = None, **options: str) -> Source:
    """Opens a followed file or folder of lines."""
    named = {f"source.{k}".replace("_", "-"): v for k, v in options.items()}
    wanted = table(
        {"connector": "filesystem", "path": str(path), "format": "json", "source.follow": "true"}
        | named
    )
    return open_source(wanted, environment(clock=clock))


class Log:
    """A log, its writer, and what rotates it as logrotate does. `written`: all lines; `below`: the
    folder for older files, below that of the log."""

    def __init__(self, path: Path, header: str = "", *, below: str = "") -> None:
        self.path = path
        self.written: list[bytes] = []
        self.header = header
        self._count = 0
        self._older = path.parent / below
        self._older.mkdir(exist_ok=True)
        self._file = self._open()

    def _open(self) -> IO[bytes]:
        file = self.path.open("ab", buffering=0)
        self._begin(file)
        return file

    def _begin(self, file: IO[bytes]) -> None:
        if self.header and not file.seek(0, os.SEEK_END):
            file.write(f"{self.header}\n".encode())
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))

    def write(self, count: int = 1) -> None:
        """Appends lines to the file that the writer has open; a header first, if it is empty."""
        self._begin(self._file)
        for _ in range(count):
            line = b"line %d" % self._count
            self._count += 1
            self.written.append(line)
            self._file.write(line + b"\n")
            now = time.time_ns()  # as exactly as new kernels have it
            os.utime(self._file.fileno(), ns=(now, now))

    def reopen(self) -> None:
        """The writer takes the file that is at the path now."""
        self._file.close()
        self._file = self._open()

    def numbered(self, number: int) -> Path:
        """The file `number` rotations ago: under its name, or that of its archive."""
        plain = self._older / f"{self.path.name}.{number}"
        names = [plain.with_name(plain.name + ending) for ending in COMPRESSIONS]
        return next((name for name in names if name.exists()), plain)

    def shift(self) -> None:
        """Makes place for another `app.log.1`."""
        numbers = [n for n in range(1, 100) if self.numbered(n).exists()]
        for number in reversed(numbers):
            old = self.numbered(number)
            ending = old.name.removeprefix(f"{self.path.name}.{number}")
            old.rename(self._older / f"{self.path.name}.{number + 1}{ending}")

    def move(self) -> None:
        """`mv app.log app.log.1`; the writer goes on with what it has open."""
        self.shift()
        self.path.rename(self.numbered(1))

    def rotate(self) -> None:
        """Moves the file away and begins a new one."""
        self.move()
        self.reopen()

    def copy(self) -> None:
        """`cp app.log app.log.1`."""
        self.shift()
        shutil.copyfile(self.path, self.numbered(1))
        now = time.time_ns()
        os.utime(self.numbered(1), ns=(now, now))

    def truncate(self) -> None:
        """`: > app.log`; the writer appends to it."""
        self.path.write_bytes(b"")

    def compress(self, number: int, ending: str = ".gz") -> None:
        """Makes an archive of `app.log.N`, and removes that. The writer has left it."""
        self.reopen()
        plain = self.numbered(number)
        if plain.exists() and plain.name == f"{self.path.name}.{number}":
            archive = plain.with_name(plain.name + ending)
            archive.write_bytes(COMPRESSIONS[ending](plain.read_bytes()))
            shutil.copystat(plain, archive)
            plain.unlink()

    def close(self) -> None:
        self._file.close()


@dataclass
class _Epoch:
    opened: list[str] = field(default_factory=list)
    ranges: list[tuple[str, int, int, list[bytes], str]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


class Reader:
    """Reads a source as a graph does. `lines`: all that was read, once."""

    def __init__(self, opens: Callable[[], Source]) -> None:
        self._opens = opens
        self.source = opens()
        self.positions: dict[str, int] = {}
        self.epochs: list[_Epoch] = []
        self._lines: list[bytes] = []
        self._kept: tuple[dict[str, int], dict[str, str]] = ({}, {})

    @property
    def lines(self) -> list[bytes]:
        return self._lines + [x for e in self.epochs for r in e.ranges for x in r[3]]

    def poll(self, max_rows: int = 1000) -> bool:
        """Runs an epoch; False if nothing has happened."""
        epoch = _Epoch([s for s in self.source.shards() if s not in self.positions])
        self.positions |= dict.fromkeys(epoch.opened, 0)
        for shard, offset in self.positions.items():
            chunk = self.source.read(shard, offset, max_rows=max_rows)
            if chunk is not None:
                assert chunk.records is not None
                assert chunk.num_rows <= max_rows
                lines = chunk.records.to_pylist()
                epoch.ranges.append((shard, offset, chunk.end, lines, chunk.digest))
        if not epoch.opened and not epoch.ranges:
            return False
        read = {r[0] for r in epoch.ranges}
        epoch.closed = [s for s in self.source.closed() if s in self.positions and s not in read]
        self._finish(epoch)
        return True

    def poll_all(self, max_rows: int = 1000) -> None:
        """Reads until nothing more comes."""
        quiet = 0
        while quiet < 3:
            quiet = 0 if self.poll(max_rows) else quiet + 1

    def _finish(self, epoch: _Epoch) -> None:
        for shard, _, end, *_ in epoch.ranges:
            self.positions[shard] = end
        for shard in epoch.closed:
            self.positions.pop(shard)
        self.source.forget(epoch.closed)
        self.epochs.append(epoch)

    def checkpoint(self) -> None:
        """Epochs so far are not repeated any more."""
        self._lines, self.epochs = self.lines, []
        self._kept = (dict(self.positions), dict(self.source.marks()))

    def kill(self, *, marks: bool = True) -> None:
        """Dies without a warning. The next poll is after `recover`."""
        self.source.close()
        if not marks:
            self._kept = (self._kept[0], {})

    def recover(self) -> None:
        """Begins at the checkpoint and repeats the epochs since."""
        self.source = self._opens()
        positions, marks = self._kept
        self.source.resume(positions, marks)
        self.positions = dict(positions)
        epochs, self.epochs = self.epochs, []
        for epoch in epochs:
            for shard in epoch.opened:
                self.source.resume({shard: 0}, {})
                self.positions[shard] = 0
            for shard, start, end, lines, digest in epoch.ranges:
                self.source.expect(shard, start, end, digest)
                chunk = self.source.read(shard, start, max_rows=1, until=end)
                assert chunk is not None
                assert chunk.records is not None
                assert chunk.records.to_pylist() == lines
            self._finish(epoch)
