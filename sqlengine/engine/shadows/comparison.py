"""The difference between a shadow and the live version beside it: rows that both gave, that the
shadow alone would have written (`+`), and that it would have left out (`-`).

Rows are compared by their values, however often they come, and not by their order. A correction of
a row counts as a row that comes, and what it corrects as one that goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.connectors.shadow import LIVE_ROWS, SHADOW_ROWS, shadow_key
from sqlengine.engine.shadows.rows import TOPICS, first_ms, rows_of
from sqlengine.jobs.job import JobVersion

SAMPLES: Final = 5


class _Record(msgspec.Struct):
    """The part of a record that is compared."""

    table: str
    kind: str
    time: int
    row: dict[str, object]
    varying: list[str] = []


@dataclass(frozen=True)
class Sample:
    """A row that one version alone gave, at `time` (ms) as a change of this kind."""

    row: Mapping[str, object]
    kind: str
    time: int


@dataclass(frozen=True)
class TableDifference:
    """The rows of one table. `both` gave them, `added` are the shadow's alone, `left_out` those of
    the live version alone, each with its last samples. `ignored`: columns that are not compared,
    since they are another with each run."""

    table: str
    both: int
    added: int
    left_out: int
    added_samples: tuple[Sample, ...] = ()
    left_out_samples: tuple[Sample, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A shadow's `version` and the `live` one beside it (0: there was none), over all rows since
    both run. `complete`: False where the first of them have been dropped by now."""

    rule: str
    version: int
    live: int
    since_ms: int
    complete: bool
    tables: tuple[TableDifference, ...]


def difference(
    broker: Broker, version: JobVersion, ends: Mapping[str, int] | None = None
) -> Difference:
    """Compares a shadow's rows with those of the live version beside it, up to the `ends` of their
    topics."""
    cut = max(first_ms(broker, topic) for topic in TOPICS)
    since = max(version.created_ms, cut)
    sides = [_side(broker, topic, sign, version, since, ends) for topic, sign in _SIGNS.items()]
    tables: dict[str, _Table] = {}
    # In the order of time, so that what both have is not kept for long.
    for sign, record in merge(*sides, key=lambda found: found[1].time):
        table = tables.setdefault(record.table, _Table(tuple(record.varying)))
        table.add(record, sign)
    found = tuple(table.difference(name) for name, table in sorted(tables.items()))
    complete = cut <= version.created_ms
    return Difference(version.name, version.version, version.beside, since, complete, found)


_SIGNS: Final = {SHADOW_ROWS: 1, LIVE_ROWS: -1}


def _side(
    broker: Broker,
    topic: str,
    sign: int,
    version: JobVersion,
    since_ms: int,
    ends: Mapping[str, int] | None,
) -> Iterator[tuple[int, _Record]]:
    """Yields the records of one side with its sign."""
    decoder = msgspec.json.Decoder(_Record)
    key, end = shadow_key(version.name, version.version), None if ends is None else ends[topic]
    for record in map(decoder.decode, rows_of(broker, topic, key, since_ms, end)):
        if record.time >= since_ms:
            yield sign, record


@dataclass
class _Table:
    """Counts the rows of one table: those of the shadow up, those of the live version down."""

    ignored: tuple[str, ...]
    left: Counter[bytes] = field(default_factory=Counter)
    total: int = 0
    last: dict[bytes, list[_Record]] = field(default_factory=dict)

    def add(self, record: _Record, sign: int) -> None:
        compared = {n: v for n, v in record.row.items() if n not in self.ignored}
        key = msgspec.json.encode((record.kind in ("+I", "+U"), compared))
        self.left[key] += sign
        self.total += 1
        if self.left[key]:
            # Not more of one row than are shown.
            self.last[key] = [*self.last.get(key, ()), record][-SAMPLES:]
        else:
            del self.left[key], self.last[key]

    def difference(self, name: str) -> TableDifference:
        """Returns what is left where the rows of both have been taken away."""
        more = [key for key, number in self.left.items() if number > 0]
        fewer = [key for key, number in self.left.items() if number < 0]
        plus, minus = sum(self.left[k] for k in more), -sum(self.left[k] for k in fewer)
        both = (self.total - plus - minus) // 2
        shown, left_out = self._samples(more), self._samples(fewer)
        return TableDifference(name, both, plus, minus, shown, left_out, self.ignored)

    def _samples(self, keys: Iterable[bytes]) -> tuple[Sample, ...]:
        """Returns the last of these rows, oldest first."""
        rows = [r for k in keys for r in self.last[k][-abs(self.left[k]) :]]
        last = sorted(rows, key=lambda r: r.time)[-SAMPLES:]
        return tuple(Sample(r.row, r.kind, r.time) for r in last)
