"""One TUMBLE aggregate over shards with late rows: input, expected output (computed row by row in
Python), operators. Every way of running them has to agree."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

from parser.types import INT, STRING, Schema, decimal, timestamp
from planner.catalog import Table
from sqlengine.batch import Batch, empty, from_pydict
from sqlengine.formats.registry import get_format
from sqlengine.operators.base import Operator
from sqlengine.operators.scan import ScanOperator
from tests.operators.windows import operators_of, tumbling

SCHEMA = Schema.of(ts=timestamp(3), k=STRING, i=INT, m=decimal(10, 2))
DELAY, SIZE = 2_000, 5_000
CALLS = ("COUNT(*)", "COUNT(i)", "SUM(i)", "MIN(m)", "MAX(m)", "AVG(i)", "SUM(m)", "AVG(m)")

Row = tuple[int, str | None, int | None, Decimal | None]


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of one shard."""

    shard: str
    offset: int
    rows: Sequence[Row]

    def batch(self, start: int = 0, count: int | None = None) -> Batch:
        rows = self.rows[start : None if count is None else start + count]
        batch = from_pydict(SCHEMA, {n: [r[i] for r in rows] for i, n in enumerate(SCHEMA.names)})
        return replace_origin(batch, self.shard)


def replace_origin(batch: Batch, shard: str) -> Batch:
    return Batch(batch.schema, batch.columns, batch.num_rows, batch.proctime, origin=shard)


def feed(seed: int, chunks: int = 30, shards: int = 3) -> list[Chunk]:
    """Rows whose times run ahead by a second or so and jump back by up to 12 s, so that some
    windows have fired."""
    rng = random.Random(seed)
    times, offsets = [100_000] * shards, [0] * shards
    result = []
    for n in range(chunks):
        shard, rows = n % shards, list[Row]()
        for _ in range(rng.randint(1, 25)):
            times[shard] += rng.randint(0, 900)
            back = rng.choice([0, 0, 0, 1_500, 5_000, 12_000])
            amount = rng.choice([None, Decimal(rng.randint(-(10**6), 10**6)) / 100])
            key = rng.choice([None, *"abcdefgh"])
            rows.append(
                (times[shard] - back, key, rng.choice([None, rng.randint(-50, 50)]), amount)
            )
        result.append(Chunk(f"shard-{shard}", offsets[shard], tuple(rows)))
        offsets[shard] += len(rows)
    return result


PLAN = tumbling(SCHEMA, "ts", DELAY, SIZE, ["k"], CALLS)


def operators() -> list[Operator]:
    return operators_of(PLAN)


def scanned() -> list[Operator]:
    """The stateless operators, from JSON records on."""
    table = Table(("c", "d", "events"), SCHEMA, SCHEMA, {"connector": "topic", "format": "json"})
    scan = ScanOperator(table, SCHEMA.names, get_format("json").decoder(SCHEMA, {}))
    return [scan, *operators()[:-1]]


def keyed() -> Operator:
    return operators()[-1]


def to_lines(chunk: Chunk) -> list[str]:
    """The chunk's rows as records."""
    texts = [
        datetime.fromtimestamp(row[0] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        for row in chunk.rows
    ]
    records = [
        {"ts": ts, "k": k, "i": i, "m": None if m is None else float(m)}
        for ts, (_, k, i, m) in zip(texts, chunk.rows, strict=True)
    ]
    return [json.dumps(r) for r in records]


def introductions(chunks: Sequence[Chunk]) -> Iterator[Batch]:
    """A tick from each shard: all shards are known from the start."""
    for shard in sorted({c.shard for c in chunks}):
        yield replace_origin(empty(SCHEMA), shard)


def expected(chunks: Sequence[Chunk]) -> tuple[list[tuple[object, ...]], int]:
    """The output rows (windows in order, keys by arrival), and the number of late rows."""
    reached = {c.shard: -(2**63) for c in chunks}
    open_windows: dict[int, dict[str | None, list[Row]]] = defaultdict(dict)
    result: list[tuple[object, ...]] = []
    late = 0
    for chunk in chunks:
        for row in chunk.rows:
            end = row[0] // SIZE * SIZE + SIZE
            if end - 1 <= min(reached.values()):
                late += 1
            else:
                open_windows[end].setdefault(row[1], []).append(row)
            reached[chunk.shard] = max(reached[chunk.shard], row[0] - DELAY)
            over = [e for e in sorted(open_windows) if e - 1 <= min(reached.values())]
            result += [r for e in over for r in _close(e, open_windows.pop(e))]
    return result + [r for e in sorted(open_windows) for r in _close(e, open_windows[e])], late


def _close(end: int, keys: dict[str | None, list[Row]]) -> Iterator[tuple[object, ...]]:
    for key, rows in keys.items():
        whole = [r[2] for r in rows if r[2] is not None]
        exact = [r[3] for r in rows if r[3] is not None]
        averages = (
            int(sum(whole) / len(whole)) if whole else None,
            _average(exact) if exact else None,
        )
        yield (
            key,
            len(rows),
            len(whole),
            sum(whole) if whole else None,
            min(exact, default=None),
            max(exact, default=None),
            averages[0],
            sum(exact) if exact else None,
            averages[1],
            end - SIZE,
            end,
            end - 1,
        )


def _average(values: Sequence[Decimal]) -> Decimal:
    return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("1.000000"), ROUND_HALF_UP)
