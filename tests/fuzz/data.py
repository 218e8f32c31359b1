"""Random tables: small, full of NULLs and duplicates, with equal times, and late rows where a table has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

START = datetime(2024, 5, 1, 10, 0, 0)
STRINGS = ("a", "b", "c", "", "A", "ab", "é", " x")
DECIMALS = ("0.00", "1.50", "-2.25", "10.00", "1.5", "999.99")
DOUBLES = (0.0, -0.0, 0.5, 1.5, -2.25, 4.0)  # sums of these are exact, in whatever order


@dataclass(frozen=True)
class Column:
    """A column by its name and the family of its type: INT, BIGINT, DECIMAL, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE,
    ARRAY (of INT), ROW (of a INT, b STRING). `nulls`: a row of its table has NULL there."""

    name: str
    kind: str
    nulls: bool = False


@dataclass(frozen=True)
class Table:
    """A table in a file. `late`: some of its rows are behind its watermark. `form`: json (rows), versions (rows, with a
    primary key), changes (a change of the row with the key `id` each; one with `gone` takes it away), look-up (for joins
    by processing time only), newest (a view: the last row of each `k` of the table `of`). `time`: what its time attribute
    is: a column, one computed of a text, or one with which the watermark goes on in some rows only."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    delay: int | None = None  # seconds that the watermark is behind; None: no watermark
    late: bool = False
    form: str = "json"
    of: str = ""
    time: str = "column"

    def ddl(self, folder: Path, flink: bool) -> str:
        """Its definition. Only Flink's tests have the connector for look-ups; ours look into any table."""
        if self.form == "newest":
            # NULL has versions in Flink, and yet it takes what is equal to a key for NOT NULL
            ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM {self.of} WHERE k IS NOT NULL"
            names = ", ".join(c.name for c in self.columns)
            return f"CREATE VIEW {self.name} AS SELECT {names} FROM ({ranked}) WHERE place = 1"
        parts = [f"{c.name} {TYPES[c.kind]}" for c in self.columns]
        if self.time == "computed":
            parts = [p for p in parts if p != "ts TIMESTAMP(3)"] + ["tx STRING", "ts AS TO_TIMESTAMP(tx)"]
        if self.delay is not None:
            behind = f"ts - INTERVAL '{self.delay}' SECOND"
            behind = f"CASE WHEN v > 0 THEN {behind} END" if self.time == "sometimes" else behind
            parts.append(f"WATERMARK FOR ts AS {behind}")
        if self.form in KEYS_OF:
            parts.append(f"PRIMARY KEY ({KEYS_OF[self.form]}) NOT ENFORCED")
        path = folder / f"{self.name}.json"
        kind = "debezium-json" if self.form == "changes" else "json"
        options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{kind}'"
        if self.form == "look-up" and flink:
            options = f"'connector' = 'file-lookup', 'path' = '{path.with_suffix('.csv')}'"
        return f"CREATE TABLE {self.name} ({', '.join(parts)}) WITH ({options})"

    def write(self, folder: Path) -> None:
        rows = self._changes() if self.form == "changes" else self.rows
        if self.time == "computed":
            rows = ({"tx" if k == "ts" else k: x for k, x in row.items()} for row in rows)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{self.name}.json").write_text(text, encoding="utf-8")
        if self.form == "look-up":
            cells = [[row.get(c.name) for c in self.columns] for row in self.rows]
            lines = [",".join("" if x is None else str(x) for x in row) + "\n" for row in cells]
            (folder / f"{self.name}.csv").write_text("".join(lines), encoding="utf-8")

    def _changes(self) -> Iterator[dict[str, Any]]:
        held: dict[Any, dict[str, Any]] = {}
        for told in self.rows:
            row = {k: v for k, v in told.items() if k != "gone"}
            before = held.pop(row["id"], None)
            if not told.get("gone"):
                held[row["id"]] = row
                yield {"before": before, "after": row, "op": "u" if before else "c"}
            elif before:
                yield {"before": before, "after": None, "op": "d"}


KEYS_OF = {"versions": "k", "changes": "id"}
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
    """One table with late rows, two with rows in time, two without time, one without rows; one of changes; those that
    only joins read: versions (a table, and a view) and one to look into."""
    seen = _table(rng, "ew", rng.randint(6, 14), delay=rng.choice((1, 3)))
    return [
        replace(_table(rng, "late", rng.randint(10, 24), delay=rng.choice((0, 1, 3)), late=True), time=_time(rng)),
        replace(_table(rng, "ev", rng.randint(8, 20), delay=rng.choice((1, 2, 4))), time=_time(rng)),
        seen,
        _table(rng, "p", rng.randint(6, 14)),
        _table(rng, "q", rng.randint(2, 6)),
        _table(rng, "bare", 0),
        _changes(rng),
        _versions(rng),
        replace(seen, name="newest", rows=(), form="newest", of=seen.name),
        _look_up(rng),
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
    return Table(name, _seen(columns, rows), tuple(rows), delay, late)


def _seen(columns: list[Column], rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(replace(c, nulls=any(row.get(c.name) is None for row in rows)) for c in columns)


def _changes(rng: Random) -> Table:
    extra = [Column(f"{k[0].lower()}{n}", k) for n, k in enumerate(rng.sample(_EXTRA, 2))]
    columns = [Column("id", "INT"), Column("k", "STRING"), Column("v", "INT"), *extra]
    rows: list[dict[str, Any]] = []
    for _ in range(rng.randint(8, 18)):
        row = {c.name: _value(rng, c.kind) for c in columns[1:] if rng.random() > 0.12}
        rows.append({"id": rng.randint(1, 5), **row, **({"gone": True} if rng.random() < 0.15 else {})})
    return Table("chg", _seen(columns, rows), tuple(rows), form="changes")


def _versions(rng: Random) -> Table:
    columns = [Column("k", "STRING"), Column("r", "INT"), Column("d", "DECIMAL"), Column("ts", "TIMESTAMP")]
    delay, count = rng.choice((1, 2)), rng.randint(5, 12)
    rows = []
    for time in _times(rng, count, delay, False):
        row = {c.name: _value(rng, c.kind) for c in columns[1:3]}
        rows.append({"k": rng.choice(STRINGS[:3]), **row, "ts": str(time)})
    return Table("ver", _seen(columns, rows), tuple(rows), delay, form="versions")


def _look_up(rng: Random) -> Table:
    columns = [Column("k", "STRING"), Column("v", "INT"), Column("r", "INT")]
    rows = [{c.name: _value(rng, c.kind) or None for c in columns} for _ in range(rng.randint(3, 8))]
    return Table("dim", _seen(columns, rows), tuple(rows), form="look-up")


def _times(rng: Random, count: int, delay: int, late: bool) -> list[datetime]:
    """Times of the rows in the order in which they come; without `late` none is behind the watermark before it."""
    found, latest = [], START
    for _ in range(count):
        latest += timedelta(seconds=rng.choice((0, 0, 1, 1, 2, 3, 7)))
        back = rng.choice((0, 0, 1, 2, 4, 9, 15)) if late else rng.randint(0, max(delay - 1, 0))
        found.append(latest - timedelta(seconds=back))
    return found


def _time(rng: Random) -> str:
    return rng.choice(("column", "column", "computed", "sometimes"))


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
