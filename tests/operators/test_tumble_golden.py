"""TUMBLE against real Flink: late rows, NULLs, overflowing sums, times before 1970, offsets,
daylight saving time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parser.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Root,
    Schema,
    decimal,
    timestamp,
    timestamp_ltz,
)
from sqlengine.batch import MIN_WATERMARK, Batch, from_pydict
from tests.operators.windows import (
    TUMBLE_FOLDER,
    Chain,
    end_of_input,
    operators_of,
    split,
    tumbling,
)

FLINK = "2.3.0"
EVENTS = Schema.of(
    ts=timestamp(3), k=STRING, i=INT, b=BIGINT, d=DOUBLE, m=decimal(10, 2), s=STRING, big=BOOLEAN
)
EARLY = Schema.of(ts=timestamp(3), k=STRING, i=INT)
INSTANTS = Schema.of(ms=BIGINT, k=STRING, i=INT, ts=timestamp_ltz(3))
SECOND, HOUR = 1000, 3_600_000


def read(name: str) -> Batch:
    lines = (TUMBLE_FOLDER / f"{name}.json").read_text().splitlines()
    schema = {"events": EVENTS, "early": EARLY, "instants": INSTANTS}[name]
    data: dict[str, list[Any]] = {
        c: [json.loads(line).get(c) for line in lines] for c in schema.names
    }
    if name == "instants":
        data["ts"] = data["ms"]
    else:
        data["ts"] = [datetime.fromisoformat(t) for t in data["ts"]]
    if name == "events":
        data["m"] = [None if m is None else Decimal(m) for m in data["m"]]
        data["big"] = [None if i is None else i > 2 for i in data["i"]]
    return from_pydict(schema, data)


# statement -> table, delay of its watermark, and what `tumbling` takes
CASES: dict[int, tuple[str, int, dict[str, Any]]] = {
    4: (
        "events",
        2 * SECOND,
        {"keys": ["k"], "calls": ["COUNT(*)", "COUNT(i)", "SUM(i)", "MIN(i)", "MAX(i)"]},
    ),
    5: (
        "events",
        2 * SECOND,
        {"keys": ["k"], "calls": ["COUNT(b)", "SUM(b)", "MIN(b)", "MAX(b)", "AVG(b)"]},
    ),
    6: (
        "events",
        2 * SECOND,
        {"keys": ["k"], "calls": ["COUNT(d)", "SUM(d)", "MIN(d)", "MAX(d)", "AVG(d)"]},
    ),
    7: (
        "events",
        2 * SECOND,
        {
            "keys": ["k"],
            "calls": ["COUNT(m)", "SUM(m)", "MIN(m)", "MAX(m)", "AVG(m)", "MIN(s)", "MAX(s)"],
        },
    ),
    8: (
        "events",
        2 * SECOND,
        {
            "keys": [],
            "calls": ["COUNT(*)", "SUM(i)", "COUNT(*) big", "SUM(i) big"],
            "offset_ms": 3 * SECOND,
        },
    ),
    9: ("early", 0, {"keys": ["k"], "calls": ["COUNT(*)", "SUM(i)"], "size_ms": 7 * SECOND}),
    10: ("events", 2 * SECOND, {"keys": ["k"], "calls": ["AVG(i)"]}),
    11: ("events", 2 * SECOND, {"keys": ["k"], "calls": ["AVG(i)", "AVG(b)"]}),
    13: ("instants", 0, {"keys": ["k"], "calls": ["COUNT(*)", "SUM(i)"], "size_ms": HOUR}),
    14: ("instants", 0, {"keys": ["k"], "calls": ["COUNT(*)", "SUM(i)"], "size_ms": 3 * HOUR}),
}
NEW_YORK = range(13, 17)


def chain(statement: int) -> tuple[Batch, Chain]:
    name, delay, options = CASES[statement]
    batch = read(name)
    zone = "America/New_York" if statement in NEW_YORK else "UTC"
    plan = tumbling(batch.schema, "ts", delay, **{"size_ms": 10 * SECOND, "zone": zone, **options})
    return batch, Chain(operators_of(plan))


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("statement", CASES)
def test_windows_are_those_of_flink(statement: int, size: int) -> None:
    batch, operators = chain(statement)
    output = [b for part in split(batch, size) for b in operators.push(part)]
    output += operators.push(end_of_input(batch.schema))
    expected = answers()[statement]
    assert sorted(map(repr, printed(output))) == sorted(map(repr, expected))
    ends = [str(row[-2]) for row in printed(output)]
    assert all(a <= b for a, b in pairwise(ends)), "windows come out in order of their ends"
    assert not operators.context.tables["2/windows"].live().size


def test_assigned_windows_are_those_of_flink() -> None:
    batch, operators = chain(13)
    operators.operators = operators.operators[:2]
    assert (
        printed(
            operators.push(batch), ["ms", "i", "ts", "window_start", "window_end", "window_time"]
        )
        == answers()[15]
    )


def test_watermarks_are_those_of_flink() -> None:
    batch, operators = chain(13)
    operators.operators = operators.operators[:1]
    before = np.concatenate(
        [b.watermarks() for part in split(batch, 4) for b in operators.push(part)]
    )
    expected = [MIN_WATERMARK if w is None else millis(str(w)) for _, _, w in answers()[16]]
    assert before.tolist() == expected


def answers() -> dict[int, list[list[object]]]:
    """Returns Flink's rows by statement."""
    lines = (TUMBLE_FOLDER / "expected.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"flink": FLINK}
    result: dict[int, list[list[object]]] = {}
    for line in lines[1:]:
        event = json.loads(line)
        result.setdefault(event["stmt"], []).append(event["row"])
    return result


def printed(batches: Sequence[Batch], names: Sequence[str] | None = None) -> list[list[object]]:
    """Rows as the oracle prints them."""
    result: list[list[object]] = []
    for batch in batches:
        columns = [batch.schema.index(n) for n in names or batch.schema.names]
        texts = [_column(batch.schema.columns[c].type.root, batch.columns[c]) for c in columns]
        result += [list(row) for row in zip(*texts, strict=True)]
    return result


def _column(root: Root, column: pa.Array) -> list[object]:
    forms: dict[Root, Callable[[Any], object]] = {
        Root.DECIMAL: str,
        Root.TIMESTAMP: java_time,
        Root.TIMESTAMP_LTZ: java_instant,
    }
    form = forms.get(root)
    values = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return [form(v) if form and v is not None else v for v in values.to_pylist()]


def java_instant(ms: int) -> str:
    text = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03d}Z" if ms % 1000 else f"{text}Z"


def java_time(ms: int) -> str:
    """A TIMESTAMP has no seconds where they are 0."""
    text = java_instant(ms).removesuffix("Z")
    return text[:16] if len(text) == 19 and text.endswith(":00") else text


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.oracle
def test_flink_still_says_so(flink: Any, update: bool) -> None:
    script = (TUMBLE_FOLDER / "tumble.sql").read_text().replace("${DATA}", str(TUMBLE_FOLDER))
    events = [e for e in flink.run(script) if e["kind"] == "row"]
    lines = [json.dumps({"flink": FLINK})]
    lines += [json.dumps({"stmt": e["stmt"], "row": e["row"]}, ensure_ascii=False) for e in events]
    if update:
        (TUMBLE_FOLDER / "expected.jsonl").write_text("\n".join(lines) + "\n")
    recorded = (TUMBLE_FOLDER / "expected.jsonl").read_text().splitlines()
    assert sorted(recorded) == sorted(lines)
