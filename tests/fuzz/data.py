"""Random tables: small, full of NULLs and duplicates, with equal times, and late rows where a table has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

START = datetime(2024, 5, 1, 10, 0, 0)
STRINGS = ("a", "b", "c", "", "A", "ab", "é", " x")
DECIMALS = ("0.00", "1.50", "-2.25", "10.00", "1.5", "999.99")
DOUBLES = (0.0, 0.5, 1.5, -2.25, 4.0)  # sums of these are exact, in whatever order


@dataclass(frozen=True)
class Column:
    """A column by its name and the family of its type: INT, BIGINT, DECIMAL, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE,
    ARRAY (of INT), ROW (of a INT, b STRING)."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table in a file of JSON. `late`: some of its rows are behind its watermark."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    delay: int | None = None  # seconds that the watermark is behind; None: no watermark
    late: bool = False

    def ddl(self, folder: Path) -> str:
        parts = [f"{c.name} {TYPES[c.kind]}" for c in self.columns]
        if self.delay is not None:
            parts.append(f"WATERMARK FOR ts AS ts - INTERVAL '{self.delay}' SECOND")
        path = folder / f"{self.name}.json"
        options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'json'"
        return f"CREATE TABLE {self.name} ({', '.join(parts)}) WITH ({options})"

    def write(self, folder: Path) -> None:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        (folder / f"{self.name}.json").write_text(text, encoding="utf-8")


TYPES = {
    "INT": "INT",
    "BIGINT": "BIGINT",
    "DECIMAL": "DECIMAL(8, 2)",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BOOLEAN": "BOOLEAN",
    "TIMESTAMP": "TIMESTAMP(3)",
    "DATE": "DATE",
    "ARRAY": "ARRAY<INT>",
    "ROW": "ROW<a INT, b STRING>",
}
_EXTRA = ("INT", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN", "DATE", "ARRAY", "ROW")


def tables(rng: Random) -> list[Table]:
    """One table with late rows, two with rows in time, two without time, one without rows."""
    return [
        _table(rng, "late", rng.randint(10, 24), delay=rng.choice((0, 1, 3)), late=True),
        _table(rng, "ev", rng.randint(8, 20), delay=rng.choice((0, 2, 4))),
        _table(rng, "ew", rng.randint(6, 14), delay=rng.choice((0, 3))),
        _table(rng, "p", rng.randint(6, 14)),
        _table(rng, "q", rng.randint(2, 6)),
        _table(rng, "empty", 0),
    ]


def _table(rng: Random, name: str, count: int, delay: int | None = None, late: bool = False) -> Table:
    columns = [Column("k", "STRING"), Column("v", "INT")]
    for number, kind in enumerate(rng.sample(_EXTRA, rng.randint(2, 6))):
        columns.append(Column(f"{kind[0].lower()}{number}", kind))
    if delay is not None:
        columns.append(Column("ts", "TIMESTAMP"))
    rng.shuffle(columns)
    times = _times(rng, count, delay or 0, late)
    rows = []
    for number in range(count):
        row = {c.name: _value(rng, c.kind) for c in columns if c.name != "ts" and rng.random() > 0.12}
        if delay is not None:
            row["ts"] = str(times[number])
        rows.append(row)
        if rng.random() < 0.1 and len(rows) > 1:
            rows[-1] = {**rows[-2], **({"ts": row["ts"]} if delay is not None else {})}
    return Table(name, tuple(columns), tuple(rows), delay, late)


def _times(rng: Random, count: int, delay: int, late: bool) -> list[datetime]:
    """Times of the rows in the order in which they come; without `late` none is behind the watermark before it."""
    found, latest = [], START
    for _ in range(count):
        latest += timedelta(seconds=rng.choice((0, 0, 1, 1, 2, 3, 7)))
        back = rng.choice((0, 0, 1, 2, 4, 9, 15)) if late else rng.randint(0, max(delay - 1, 0))
        found.append(latest - timedelta(seconds=back))
    return found


def _value(rng: Random, kind: str) -> Any:
    if rng.random() < 0.15:
        return None
    match kind:
        case "INT" | "BIGINT":
            return rng.choice((-1, 0, 1, 2, 3, 4, 5))
        case "DECIMAL":
            return float(rng.choice(DECIMALS))
        case "DOUBLE":
            return rng.choice(DOUBLES)
        case "STRING":
            return rng.choice(STRINGS[:3]) if rng.random() < 0.7 else rng.choice(STRINGS)
        case "BOOLEAN":
            return rng.random() < 0.5
        case "DATE":
            return rng.choice(("2024-04-30", "2024-05-01", "2024-02-29"))
        case "ARRAY":
            return [_value(rng, "INT") for _ in range(rng.randint(0, 3))]
        case _:
            return {"a": _value(rng, "INT"), "b": _value(rng, "STRING")}
