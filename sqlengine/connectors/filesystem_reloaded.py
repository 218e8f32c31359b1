"""Files in which rows are looked up, read again when they change:

    CREATE TABLE prices (…) WITH ('connector' = 'filesystem', …, 'lookup.full-cache.periodic-reload.interval' = '1 min')

What is read is a topic of the system's: the lines of the first version, and for each later one those that it has no more and
those that are new. So an epoch's record says by its offsets which version it used, a replay reads the same lines again, and
an operator behind takes only what has changed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from xxhash import xxh64_hexdigest

from parser.errors import ServiceError
from planner.catalog import Table
from sqlengine.batch import RowKind
from sqlengine.broker.base import Broker, Records
from sqlengine.connectors.base import Chunk, Environment
from sqlengine.formats.registry import framing_of

log = logging.getLogger("sqlengine")

_SHARD: Final = "0"
_CAME, _WENT = b"+", b"-"
_PIECE: Final = 50_000
# What tells two states of a file apart without reading it.
_Stamp = tuple[tuple[str, int, int, int], ...]


class ReloadedSource:
    """One shard, whose offsets count lines that came or went. It never keeps others from their end."""

    bounded: ClassVar[bool] = True

    def __init__(
        self, table: Table, environment: Environment, interval_ms: int, files: Callable[[], list[Path]]
    ) -> None:
        if environment.broker is None:
            raise ServiceError(f"table '{table.display}' is read again, and there is no place to keep its versions")
        self._broker: Broker = environment.broker
        self._clock, self._interval, self._files = environment.clock, interval_ms, files
        self._framing = framing_of(table)
        self._display = table.display
        text = "\0".join(
            [environment.writer, str(table.physical), *(f"{k}={v}" for k, v in sorted(table.options.items()))]
        )
        self._topic = f"_lookup_{xxh64_hexdigest(text.encode())}"
        self._broker.create_topic(self._topic, if_not_exists=True)
        self._looked: int | None = None
        self._stamp: _Stamp | None = None
        self._missed = False

    def renew(self) -> bool:
        """See `Reloading`."""
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
        found: list[bytes] = self._framing.split(path.read_bytes(), complete=True).records.to_pylist()
        return found

    def _change_to(self, lines: Sequence[bytes], now: int) -> bool:
        """Appends what is different. A crash in the middle leaves the rest to the next time."""
        came = Counter(lines)
        went = self._held()
        went.subtract(came)
        gone = [line for line, count in went.items() for _ in range(count)]
        new = [line for line, count in went.items() for _ in range(-count)]
        values = [*gone, *new]
        keys = [_WENT] * len(gone) + [_CAME] * len(new)
        for start in range(0, len(values), _PIECE):
            piece = slice(start, start + _PIECE)
            self._broker.append(self._topic, 0, values[piece], keys=keys[piece], timestamp_ms=now)
        return bool(values)

    def _held(self) -> Counter[bytes]:
        """The lines of the last version."""
        held: Counter[bytes] = Counter()
        for records in self._all():
            assert records.keys is not None
            for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
                held[value] += 1 if key == _CAME else -1
        return held

    def _all(self) -> Iterator[Records]:
        offset = 0
        while (records := self._broker.read(self._topic, 0, offset, max_records=_PIECE)) is not None:
            yield records
            offset = records.next_offset

    def shards(self) -> list[str]:
        return [_SHARD]

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return self._broker.end_offset(self._topic, 0)

    def read(self, shard: str, offset: int, *, max_rows: int, until: int | None = None) -> Chunk | None:
        """See `Source`."""
        records = self._broker.read(self._topic, 0, offset, max_records=max_rows, until=until)
        if records is None:
            return None
        assert records.keys is not None
        went = np.array([key == _WENT for key in records.keys.to_pylist()])
        kinds = np.where(went, RowKind.DELETE, RowKind.INSERT).astype(np.int8)
        count = records.num_rows
        return Chunk(shard, offset, records.next_offset, count, records.values, offsets=records.offsets, kinds=kinds)

    def gone(self, shard: str, offset: int) -> str | None:
        """See `Forgetting`: each graph has versions of its own."""
        if offset <= self._broker.end_offset(self._topic, 0):
            return None
        return "rows were looked up in versions of the file that only the graph has in which the job ran"

    def passed(self, positions: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino
