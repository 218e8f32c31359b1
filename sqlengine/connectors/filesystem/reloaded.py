"""Files in which rows are looked up, read again when they change:

    CREATE TABLE prices (…) WITH ('connector' = 'filesystem', …,
    'lookup.full-cache.periodic-reload.interval' = '1 min')

What is read is a topic of the system's: the lines of the first version, and for each later one
those that it has no more and those that are new. So an epoch's record says by its offsets which
version it used, a replay reads the same lines again, and an operator behind takes only what has
changed.

Now and then a version follows as a whole, between two marks: who begins to read begins behind the
first mark, and who has read so far goes by all of it at once. So nobody else is ever between the
two, and what stands before the marks goes once no recovery begins there."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_hexdigest

from parser.errors import ServiceError
from parser.limits import bytes_text, present
from planner.catalog import Table
from sqlengine.batch import RowKind
from sqlengine.broker.base import Broker, Records
from sqlengine.connectors.base import Chunk, Environment, FullCache, Source
from sqlengine.connectors.filesystem.long_records import read_range
from sqlengine.connectors.filesystem.opened import PlainFile
from sqlengine.formats.registry import framing_of

log = logging.getLogger("sqlengine")

_SHARD: Final = "0"
# Keys of records: a line came, it went, it is one of a whole version, which stands between two
# marks. The value of the second mark is _WHOLE, or the version was not completed.
_CAME, _WENT, _IS, _OPENS, _CLOSES = b"+", b"-", b"=", b"[", b"]"
_WHOLE: Final = b"whole"
_PIECE: Final = 50_000
# Changes before a version follows as a whole: as many as it has lines, and no fewer.
_FEWEST: Final = 1_000
# What tells two states of a file apart without reading it.
_Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass
class _TopicState:
    """The contents of a topic of versions: the lines of the last version, the marks before whole
    versions, the number of changes after the last mark, and whether a whole version is not
    completed."""

    lines: Counter[bytes] = field(default_factory=Counter)
    marks: list[int] = field(default_factory=list)
    changes: int = 0
    opened: int | None = None
    building: Counter[bytes] = field(default_factory=Counter)

    def take(self, offset: int, key: bytes, value: bytes) -> None:
        match key:
            case b"[":
                self.opened, self.building = offset, Counter()
            case b"=":
                self.building[value] += 1
            case b"]":
                if value == _WHOLE and self.opened is not None:
                    self.marks.append(self.opened)
                    self.lines, self.changes = self.building, 0
                self.opened, self.building = None, Counter()
            case _:
                self.lines[value] += 1 if key == _CAME else -1
                self.changes += 1

    @property
    def read(self) -> Counter[bytes]:
        """The lines that a reader has at this point. One within a whole version began with it."""
        return self.lines if self.opened is None else self.building


class ReloadedSource(Source, FullCache):
    """Reads files by their versions: one shard, whose offsets count lines that came or went. It is
    bounded: it never keeps other sources from their end."""

    bounded: ClassVar[bool] = True

    def __init__(
        self,
        table: Table,
        environment: Environment,
        interval_ms: int,
        files: Callable[[], list[Path]],
    ) -> None:
        if environment.broker is None:
            raise ServiceError(
                f"table '{table.display}' is read again, and there is no place to keep its versions"
            )
        self._broker: Broker = environment.broker
        self._clock, self._interval, self._files = environment.clock, interval_ms, files
        self._access = environment.files
        self._framing = framing_of(table)
        self._display = table.display
        text = "\0".join(
            [
                environment.writer,
                str(table.physical),
                *(f"{k}={v}" for k, v in sorted(table.options.items())),
            ]
        )
        self.topic = f"_lookup_{xxh64_hexdigest(text.encode())}"
        self._broker.create_topic(self.topic, if_not_exists=True)
        self.full_cache = self
        self._marks: list[int] | None = None
        self._looked: int | None = None
        self._stamp: _Stamp | None = None
        self._missed = False

    def reload(self) -> bool:
        """See `FullCache`."""
        now = self._clock()
        if self._looked is not None and now - self._looked < self._interval:
            return False
        self._looked = now
        try:
            stamp = tuple(_stamp(path) for path in self._files())
            if stamp == self._stamp:
                return False
            lines = [line for path in self._files() for line in self._lines(path)]
        except OSError as error:
            if not self._missed:
                log.warning("table %s keeps its rows: %s", self._display, error)
            self._missed = True
            return False
        self._stamp, self._missed = stamp, False
        return self._change_to(lines, now)

    def _lines(self, path: Path) -> Sequence[bytes]:
        with closing(PlainFile(str(path), self._access)) as file:
            framed = read_range(file.read, self._framing, 0, file.size())
        lengths = pc.binary_length(framed.records) if framed.lengths is None else framed.lengths
        longest = int(np.asarray(lengths).max(initial=0))
        if longest > (most := present().record_size):
            raise OSError(
                f"a record of {path} has {bytes_text(longest)}, {most:,} are allowed (record-size)"
            )
        lines: list[bytes] = framed.records.to_pylist()
        return lines

    def _change_to(self, lines: Sequence[bytes], now: int) -> bool:
        """Appends what is different. A crash in the middle leaves the rest to the next time."""
        state = self._read_state()
        if state.opened is not None:
            self._append([_CLOSES], [b""], now)
        counts = state.lines
        counts.subtract(Counter(lines))
        removed = [line for line, count in counts.items() for _ in range(count)]
        added = [line for line, count in counts.items() for _ in range(-count)]
        self._append([_WENT] * len(removed) + [_CAME] * len(added), [*removed, *added], now)
        if state.changes + len(removed) + len(added) > max(len(lines), _FEWEST):
            state.marks.append(self._broker.end_offset(self.topic, 0))
            self._append([_OPENS, *[_IS] * len(lines), _CLOSES], [b"", *lines, _WHOLE], now)
        if removed or added:
            # What a reader has of it must not be lost with power, nor half a version be left.
            self._broker.sync()
        self._marks = state.marks
        return bool(removed or added)

    def _append(self, keys: Sequence[bytes], values: Sequence[bytes], now: int) -> None:
        for start in range(0, len(values), _PIECE):
            piece = slice(start, start + _PIECE)
            self._broker.append(self.topic, 0, values[piece], keys=keys[piece], timestamp_ms=now)

    def lines_at(self, offset: int) -> pa.Array:
        """See `FullCache`."""
        return pa.array(self._read_state(offset).read.elements(), pa.binary())

    def restore(self, lines: pa.Array, *, exclusive: bool) -> int | None:
        """See `FullCache`."""
        wanted = lines.to_pylist()
        state = self._read_state()
        if state.opened is not None or state.lines != Counter(wanted):
            if not exclusive:
                return None
            self._change_to(wanted, self._clock())
        return self._broker.end_offset(self.topic, 0)

    def _read_state(self, before: int | None = None) -> _TopicState:
        state = _TopicState()
        for records in self._from(self._broker.begin_offset(self.topic, 0), before):
            assert records.keys is not None
            columns = records.offsets.tolist(), records.keys.to_pylist(), records.values.to_pylist()
            for offset, key, value in zip(*columns, strict=True):
                state.take(offset, key, value)
        return state

    def _from(self, offset: int, until: int | None = None) -> Iterator[Records]:
        while (
            records := self._broker.read(self.topic, 0, offset, max_records=_PIECE, until=until)
        ) is not None:
            yield records
            offset = records.next_offset

    def discard_before(self, offset: int) -> None:
        """See `FullCache`."""
        if self._marks is None:
            self._marks = self._read_state().marks
        past = [mark for mark in self._marks if mark <= offset]
        if len(past) > 1 or (past and self._broker.begin_offset(self.topic, 0) < past[-1]):
            self._broker.trim(self.topic, 0, past[-1])
            self._marks = self._marks[len(past) - 1 :]

    def shards(self) -> list[str]:
        return [_SHARD]

    def start(self, shard: str) -> int:
        marks = self._read_state().marks
        return marks[-1] + 1 if marks else 0

    def end(self, shard: str) -> int | None:
        return self._broker.end_offset(self.topic, 0)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        records = self._broker.read(self.topic, 0, offset, max_records=max_rows, until=until)
        if records is None:
            return None
        assert records.keys is not None
        keys = records.keys.to_pylist()
        end = records.next_offset
        if _OPENS in keys:
            keys = keys[: keys.index(_OPENS)]
            end = int(records.offsets[len(keys)]) if keys else self._behind(offset)
        rows = np.array([n for n, key in enumerate(keys) if key != _CLOSES], np.int64)
        kinds = np.array(
            [RowKind.DELETE if keys[r] == _WENT else RowKind.INSERT for r in rows], np.int8
        )
        values = records.values.take(pa.array(rows))
        return Chunk(
            shard, offset, end, len(rows), values, offsets=records.offsets[rows], kinds=kinds
        )

    def _behind(self, mark: int) -> int:
        """Returns the offset where changes go on after the whole version at `mark`."""
        for records in self._from(mark):
            assert records.keys is not None
            keys = records.keys.to_pylist()
            if _CLOSES in keys:
                return int(records.offsets[keys.index(_CLOSES)]) + 1
        return self._broker.end_offset(self.topic, 0)  # a loss of power took the rest

    def close(self) -> None: ...


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino
