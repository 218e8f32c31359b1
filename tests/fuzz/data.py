"""Random tables: small, full of NULLs and duplicates, with equal times, and late rows where a table
has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.forms import TYPES

START = datetime(2024, 5, 1, 10, 0, 0)
STRINGS = ("a", "b", "c", "", "A", "ab", "é", " x")


@dataclass(frozen=True)
class Column:
    """A column by its name and the family of its type: one of `forms.TYPES`. `nulls`: a row of its
    table has NULL there."""

    name: str
    kind: str
    nulls: bool = False


@dataclass(frozen=True)
class Table:
    """A table in a file. `late`: some of its rows are behind its watermark. `form`: json (rows),
    versions (rows, with a primary key), changes (a change of the row with the key `id` each; one
    with `gone` takes it away), look-up (for joins by processing time only), newest (a view: the
    last row of each `k` of the table `of`). `time`: what its time attribute is: a column, one
    computed of a text, or one with which the watermark goes on in some rows only; `zoned`: it is a
    TIMESTAMP_LTZ. `told`: the format of changes."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    delay: int | None = None  # seconds that the watermark is behind; None: no watermark
    late: bool = False
    form: str = "json"
    of: str = ""
    time: str = "column"
    zoned: bool = False
    told: str = "debezium-json"

    def ddl(self, folder: Path, flink: bool) -> str:
        """Its definition. Only Flink's tests have the connector for look-ups; ours look into any
        table."""
        if self.form == "newest":
            # NULL has versions in Flink, and yet it takes what is equal to a key for NOT NULL
            ranked = (
                "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM"
                f" {self.of} WHERE k IS NOT NULL"
            )
            names = ", ".join(c.name for c in self.columns)
            return f"CREATE VIEW {self.name} AS SELECT {names} FROM ({ranked}) WHERE place = 1"
        parts = [f"{c.name} {TYPES[c.kind]}" for c in self.columns if c.name != "ts"]
        if any(c.name == "ts" for c in self.columns):
            parts += _TIMES[self.time == "computed", self.zoned]
        if self.delay is not None:
            behind = f"ts - INTERVAL '{self.delay}' SECOND"
            behind = f"CASE WHEN v > 0 THEN {behind} END" if self.time == "sometimes" else behind
            parts.append(f"WATERMARK FOR ts AS {behind}")
        if self.form in KEYS_OF:
            parts.append(f"PRIMARY KEY ({KEYS_OF[self.form]}) NOT ENFORCED")
        path = folder / f"{self.name}.json"
        kind = self.told if self.form == "changes" else "json"
        options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{kind}'"
        if self.form == "look-up" and flink:
            options = f"'connector' = 'file-lookup', 'path' = '{path.with_suffix('.csv')}'"
        return f"CREATE TABLE {self.name} ({', '.join(parts)}) WITH ({options})"

    def write(self, folder: Path) -> None:
        rows = self._changes() if self.form == "changes" else map(self._timed, self.rows)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{self.name}.json").write_text(text, encoding="utf-8")
        if self.form == "look-up":
            cells = [[row.get(c.name) for c in self.columns] for row in self.rows]
            lines = [",".join("" if x is None else str(x) for x in row) + "\n" for row in cells]
            (folder / f"{self.name}.csv").write_text("".join(lines), encoding="utf-8")

    def _timed(self, row: dict[str, Any]) -> dict[str, Any]:
        if "ts" not in row:
            return row
        rest = {k: x for k, x in row.items() if k != "ts"}
        if self.time != "computed":
            return {**rest, "ts": row["ts"] + "Z" * self.zoned}
        at = datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC)
        return {**rest, "tx": int(at.timestamp() * 1000) if self.zoned else row["ts"]}

    def _changes(self) -> Iterator[dict[str, Any]]:
        held: dict[Any, dict[str, Any]] = {}
        for told in self.rows:
            row = {k: v for k, v in told.items() if k != "gone"}
            before = held.pop(row["id"], None)
            if not told.get("gone"):
                held[row["id"]] = row
                yield _TOLD[self.told](before, row)
            elif before:
                yield _TOLD[self.told](before, None)


def _debezium(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "op": "d" if after is None else "u" if before else "c",
    }


def _ogg(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "op_type": "D" if after is None else "U" if before else "I",
    }


def _maxwell(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    if before is None or after is None:
        return {"data": after or before, "type": "delete" if after is None else "insert"}
    # what it tells of the row before must be true: 0.0 is another value than -0.0, which Python
    # takes for equal
    changed = {
        k: before.get(k) for k in {**before, **after} if repr(before.get(k)) != repr(after.get(k))
    }
    return {"data": after, "old": dict(sorted(changed.items())), "type": "update"}


def _canal(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    told = _maxwell(before, after)
    lists: dict[str, Any] = {k: [told[k]] for k in ("data", "old") if k in told}
    return {**lists, "type": told["type"].upper()}


_TOLD = {
    "debezium-json": _debezium,
    "ogg-json": _ogg,
    "maxwell-json": _maxwell,
    "canal-json": _canal,
}
KEYS_OF = {"versions": "k", "changes": "id"}
# The columns of a time attribute: whether it is computed, whether it has a time zone.
_TIMES = {
    (False, False): ["ts TIMESTAMP(3)"],
    (False, True): ["ts TIMESTAMP_LTZ(3)"],
    (True, False): ["tx STRING", "ts AS TO_TIMESTAMP(tx)"],
    (True, True): ["tx BIGINT", "ts AS TO_TIMESTAMP_LTZ(tx, 3)"],
}
# of every table some, and none that only expressions have
_EXTRA = tuple(k for k in TYPES if k not in ("INT", "TIMESTAMP"))


def tables(rng: Random) -> list[Table]:
    """One table with late rows, two with rows in time, two without time, one without rows; one of
    changes; those that only joins read: versions (a table, and a view) and one to look into."""
    zoned = rng.random() < 0.15
    seen = _table(rng, "ew", rng.randint(6, 14), delay=rng.choice((1, 3)))
    found = [
        replace(
            _table(rng, "late", rng.randint(10, 24), delay=rng.choice((0, 1, 3)), late=True),
            time=_time(rng),
        ),
        replace(
            _table(rng, "ev", rng.randint(8, 20), delay=rng.choice((1, 2, 4))), time=_time(rng)
        ),
        seen,
        _table(rng, "p", rng.randint(6, 14)),
        _table(rng, "q", rng.randint(2, 6)),
        _table(rng, "bare", 0),
        _changes(rng),
        _versions(rng),
        replace(seen, name="newest", rows=(), form="newest", of=seen.name),
        _look_up(rng),
    ]
    return [replace(t, zoned=zoned) for t in found]


def settings(rng: Random) -> str:
    """SET statements of a part."""
    zone = rng.choice(("UTC", "UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai"))
    return f"SET 'table.local-time-zone' = '{zone}';\n"


def _table(
    rng: Random, name: str, count: int, delay: int | None = None, late: bool = False
) -> Table:
    columns = [Column("k", "STRING"), Column("v", "INT")]
    for number, kind in enumerate(rng.sample(_EXTRA, rng.randint(3, 8))):
        columns.append(Column(f"{kind[0].lower()}{number}", kind))
    if delay is not None:
        columns.append(Column("ts", "TIMESTAMP"))
    rng.shuffle(columns)
    times = _times(rng, count, delay or 0, late)
    rows = []
    for number in range(count):
        row = {
            c.name: _value(rng, c.kind) for c in columns if c.name != "ts" and rng.random() > 0.12
        }
        if delay is not None:
            row["ts"] = str(times[number])
        rows.append(row)
        if rng.random() < 0.1 and len(rows) > 1:
            rows[-1] = {**rows[-2], **({"ts": row["ts"]} if delay is not None else {})}
    return Table(name, _seen(columns, rows), tuple(rows), delay, late)


def _seen(columns: list[Column], rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(replace(c, nulls=any(row.get(c.name) is None for row in rows)) for c in columns)


def _changes(rng: Random) -> Table:
    extra = [Column(f"{k[0].lower()}{n}", k) for n, k in enumerate(rng.sample(_EXTRA, 3))]
    columns = [Column("id", "INT"), Column("k", "STRING"), Column("v", "INT"), *extra]
    rows: list[dict[str, Any]] = []
    for _ in range(rng.randint(8, 18)):
        row = {c.name: _value(rng, c.kind) for c in columns[1:] if rng.random() > 0.12}
        if any(c.kind == "DECIMAL" for c in extra):  # where Flink reads one beside it, -0.0 is 0.0
            row = {name: x + 0.0 if isinstance(x, float) else x for name, x in row.items()}
        rows.append(
            {"id": rng.randint(1, 5), **row, **({"gone": True} if rng.random() < 0.15 else {})}
        )
    return Table(
        "chg", _seen(columns, rows), tuple(rows), form="changes", told=rng.choice(tuple(_TOLD))
    )


def _versions(rng: Random) -> Table:
    columns = [
        Column("k", "STRING"),
        Column("r", "INT"),
        Column("d", "DECIMAL"),
        Column("ts", "TIMESTAMP"),
    ]
    delay, count = rng.choice((1, 2)), rng.randint(5, 12)
    rows = []
    for time in _times(rng, count, delay, False):
        row = {c.name: _value(rng, c.kind) for c in columns[1:3]}
        rows.append({"k": rng.choice(STRINGS[:3]), **row, "ts": str(time)})
    return Table("ver", _seen(columns, rows), tuple(rows), delay, form="versions")


def _look_up(rng: Random) -> Table:
    columns = [Column("k", "STRING"), Column("v", "INT"), Column("r", "INT")]
    rows = [
        {c.name: _value(rng, c.kind) or None for c in columns} for _ in range(rng.randint(3, 8))
    ]
    return Table("dim", _seen(columns, rows), tuple(rows), form="look-up")


def _times(rng: Random, count: int, delay: int, late: bool) -> list[datetime]:
    """Times of the rows in the order in which they come; without `late` none is behind the
    watermark before it."""
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
        case "ARRAY":
            return [_value(rng, "INT") for _ in range(rng.randint(0, 3))]
        case "ROWS":
            return [_value(rng, "ROW") for _ in range(rng.randint(0, 2))]
        case "MAP":
            return {rng.choice(STRINGS[:3]): _value(rng, "INT")}
        case "ROW":
            return {"a": _value(rng, "INT"), "b": _value(rng, "STRING")}
        case "STRING" if rng.random() < 0.7:
            return rng.choice(STRINGS[:3])
    return rng.choice(_VALUES[kind])


# Sums are exact, in whatever order.
_VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), (-1, 0, 1, 2, 3, 4, 5)),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (0.0, -0.0, 0.5, 1.5, -2.25, 4.0)),
    "DECIMAL": (0.0, 1.5, -2.25, 10.0, 1.5, 999.99),
    "STRING": STRINGS,
    "BYTES": ("YQ==", "YWI=", ""),
    "BOOLEAN": (True, False),
    "DATE": ("2024-04-30", "2024-05-01", "2024-02-29"),
    "TIME": ("10:00:00", "00:00:00", "23:59:59"),
    "LTZ": ("2024-05-01 10:00:05Z", "2024-05-01 22:30:00.5Z", "2024-02-29 00:00:00Z"),
}
