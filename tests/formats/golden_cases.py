"""What real Flink reads from JSON values and CSV fields, type by type: the cases, and how their
answers are kept.

A golden file holds, per case and literal, the value as the oracle prints it; literals that gave
NULL are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataType,
    array,
    char,
    decimal,
    map_of,
    row,
    time,
    timestamp,
    timestamp_ltz,
)

GOLDENS = Path(__file__).parent / "goldens"

_COMMON: dict[str, DataType] = {
    "STRING": STRING,
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DECIMAL(10, 2)": decimal(10, 2),
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": time(0),
    "TIMESTAMP(3)": timestamp(3),
    "TIMESTAMP_LTZ(3)": timestamp_ltz(3),
    "ARRAY<INT>": array(INT),
    "ARRAY<STRING>": array(STRING),
}
_JSON_ONLY: dict[str, DataType] = {
    "CHAR(3)": char(3),
    "DECIMAL(38, 18)": decimal(38, 18),
    "DECIMAL(3, 0)": decimal(3, 0),
    "TIMESTAMP(0)": timestamp(0),
    "TIMESTAMP(6)": timestamp(6),
    "TIMESTAMP(9)": timestamp(9),
    "TIMESTAMP_LTZ(9)": timestamp_ltz(9),
    "MAP<STRING, INT>": map_of(STRING, INT),
    "MAP<STRING, STRING>": map_of(STRING, STRING),
    "ROW<a INT, b DOUBLE>": row(("a", "b"), (INT, DOUBLE)),
}

# Case name -> (format, options without prefix, type as SQL, type)
Case = tuple[str, dict[str, str], str, DataType]
CASES: dict[str, Case] = {
    **{f"json {sql}": ("json", {}, sql, kind) for sql, kind in {**_COMMON, **_JSON_ONLY}.items()},
    **{
        f"json ISO-8601 {sql}": ("json", {"timestamp-format.standard": "ISO-8601"}, sql, kind)
        for sql, kind in {**_COMMON, **_JSON_ONLY}.items()
        if kind.is_timestamp
    },
    **{f"csv {sql}": ("csv", {}, sql, kind) for sql, kind in _COMMON.items()},
}


def literals(format_name: str) -> list[str]:
    name = "json_literals.txt" if format_name == "json" else "csv_texts.txt"
    return (GOLDENS / name).read_text().removesuffix("\n").split("\n")


def records(format_name: str) -> list[bytes]:
    """A record per literal, with the literal's number as its first column."""
    form = '{"id": %d, "v": %s}' if format_name == "json" else "%d,%s"
    return [(form % (i, text)).encode() for i, text in enumerate(literals(format_name))]


def load() -> dict[str, dict[str, Any]]:
    return json.loads((GOLDENS / "values.json").read_text())["cases"]


def record(flink: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """Asks a real Flink for all cases."""
    found: dict[str, dict[str, Any]] = {}
    for i, (name, (format_name, options, sql, _)) in enumerate(CASES.items()):
        path = folder / f"{format_name}.txt"
        path.write_bytes(b"\n".join(records(format_name)) + b"\n")
        given = {**options, "ignore-parse-errors": "true"}
        with_options = "".join(f", '{format_name}.{k}' = '{v}'" for k, v in given.items())
        _, rows = flink.query(
            "SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '1';CREATE TEMPORARY"
            f" TABLE t{i} (id INT, v {sql}) WITH ('connector' = 'filesystem', 'path' = '{path}',"
            f" 'format' = '{format_name}'{with_options}); SELECT * FROM t{i};"
        )
        texts = literals(format_name)
        found[name] = {texts[row[0]]: row[1] for _, row in rows if row[1] is not None}
    return found


def save(cases: dict[str, dict[str, Any]]) -> None:
    text = json.dumps({"flink": "2.3.0", "cases": cases}, ensure_ascii=True, indent=0)
    (GOLDENS / "values.json").write_text(text + "\n")
