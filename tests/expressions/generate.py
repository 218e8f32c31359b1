"""Makes the expressions over all pairs of types, and the table that they read: one row, one column
a value.

    python -m tests.expressions.generate

writes `types.sql`, `types.json`, `casts.exprs`, `cast_refusals.exprs`, `arithmetic.exprs` and
`comparison.exprs`. What is special about some function or operator stands in files that are written
by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """A type with its columns: name -> value as JSON (a table's column) or as SQL over other
    columns (`computed`)."""

    type: str
    prefix: str
    values: dict[str, Any] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    literal: str = ""

    @property
    def columns(self) -> list[str]:
        return [f"{self.prefix}_{name}" for name in (*self.values, *self.computed)]

    @property
    def first(self) -> str:
        return self.columns[0]


SOURCES = [
    Source("BOOLEAN", "bo", {"true": True, "false": False, "null": None}, literal="TRUE"),
    Source(
        "TINYINT",
        "ti",
        {"one": 1, "min": -128, "max": 127, "zero": 0, "null": None},
        literal="CAST(7 AS TINYINT)",
    ),
    Source(
        "SMALLINT",
        "si",
        {"one": 300, "min": -32768, "max": 32767, "zero": 0, "null": None},
        literal="CAST(300 AS SMALLINT)",
    ),
    Source(
        "INT",
        "in",
        {"one": 86400, "min": -2147483648, "max": 2147483647, "zero": 0, "null": None},
        literal="86400",
    ),
    Source(
        "BIGINT",
        "bi",
        {"one": 1234567890123, "min": -(2**63), "max": 2**63 - 1, "zero": 0, "null": None},
        literal="1234567890123",
    ),
    Source(
        "FLOAT",
        "fl",
        {"one": 1.5, "tenth": 0.1, "big": 1e30, "neg": -2.5, "zero": 0.0, "null": None},
        literal="CAST(0.1 AS FLOAT)",
    ),
    Source(
        "DOUBLE",
        "do",
        {"one": 2.5, "neg": -1234567.891, "big": 1e300, "small": 1e-5, "ten": 1e7, "null": None},
        literal="2.5e0",
    ),
    Source(
        "DECIMAL(10, 2)",
        "de",
        {"one": "123.45", "neg": "-0.05", "max": "99999999.99", "half": "2.50", "null": None},
        literal="123.45",
    ),
    Source(
        "DECIMAL(38, 18)",
        "dw",
        {
            "one": "12345678901234567890.123456789012345678",
            "neg": "-0.000000000000000001",
            "two": "2.000000000000000000",
            "null": None,
        },
        literal="CAST(1.5 AS DECIMAL(38, 18))",
    ),
    Source(
        "CHAR(5)",
        "ch",
        {"num": "12345", "text": "ab cd", "date": "1 \u00e9\u00df\U0001f600", "null": None},
        literal="'12345'",
    ),
    Source(
        "VARCHAR(30)",
        "vc",
        {"num": "42", "text": "h\u00e9llo w\u00f6rld", "empty": "", "null": None},
        literal="CAST('42' AS VARCHAR(30))",
    ),
    Source(
        "STRING",
        "st",
        {
            "int": "42",
            "neg": " -7 ",
            "dec": "3.75",
            "exp": "1e3",
            "big": "99999999999999999999",
            "true": "true",
            "yes": "YES",
            "date": "2024-02-29",
            "baddate": "2023-02-29",
            "time": "12:34:56.789",
            "ts": "2024-02-29 12:34:56.123456789",
            "tst": "2024-02-29T12:34:56",
            "bad": "abc",
            "empty": "",
            "uni": "\u00e9\u00df\U0001f600",
            "nan": "NaN",
            "null": None,
        },
        literal="CAST('42' AS STRING)",
    ),
    Source("BINARY(3)", "by", {"abc": "YWJj", "high": "/wCA", "null": None}, literal="X'616263'"),
    Source(
        "VARBINARY(5)",
        "vb",
        {"abc": "YWJj", "empty": "", "null": None},
        literal="CAST(X'616263' AS VARBINARY(5))",
    ),
    Source(
        "BYTES",
        "bs",
        {"uni": "w6nDn/CfmIA=", "num": "NDI=", "empty": "", "null": None},
        literal="CAST(X'3432' AS BYTES)",
    ),
    Source(
        "DATE",
        "da",
        {
            "leap": "2024-02-29",
            "old": "1969-12-31",
            "first": "0001-01-01",
            "last": "9999-12-31",
            "null": None,
        },
        literal="DATE '2024-02-29'",
    ),
    Source(
        "TIME(0)",
        "tm",
        {"noon": "12:34:56", "zero": "00:00:00", "last": "23:59:59", "null": None},
        literal="TIME '12:34:56'",
    ),
    Source(
        "TIMESTAMP(3)",
        "ts",
        {
            "leap": "2024-02-29 12:34:56.789",
            "old": "1969-12-31 23:59:59.999",
            "zero": "1970-01-01 00:00:00",
            "null": None,
        },
        literal="TIMESTAMP '2024-02-29 12:34:56.789'",
    ),
    Source(
        "TIMESTAMP(9)",
        "tn",
        {
            "leap": "2024-02-29 12:34:56.123456789",
            "old": "1969-12-31 23:59:59.999999999",
            "null": None,
        },
        literal="TIMESTAMP '2024-02-29 12:34:56.123456789'",
    ),
    Source(
        "TIMESTAMP_LTZ(3)",
        "tl",
        {"leap": "2024-02-29 12:34:56.789Z", "old": "1969-12-31 23:59:59.999Z", "null": None},
        literal="TO_TIMESTAMP_LTZ(0, 3)",
    ),
    Source(
        "INTERVAL YEAR TO MONTH",
        "iy",
        {},
        {
            "one": "ti_one * INTERVAL '1-2' YEAR TO MONTH",
            "neg": "ti_one * INTERVAL -'10' YEAR",
            "null": "ti_null * INTERVAL '1' MONTH",
        },
        literal="INTERVAL '1-2' YEAR TO MONTH",
    ),
    Source(
        "INTERVAL DAY TO SECOND(3)",
        "id",
        {},
        {
            "one": "ti_one * INTERVAL '1 02:03:04.567' DAY TO SECOND",
            "neg": "ti_one * INTERVAL -'90' SECOND",
            "null": "ti_null * INTERVAL '1' DAY",
        },
        literal="INTERVAL '1 02:03:04.567' DAY TO SECOND",
    ),
    Source(
        "ARRAY<INT>", "ai", {"one": [1, None, 3], "empty": [], "null": None}, literal="ARRAY[1, 2]"
    ),
    Source(
        "ARRAY<STRING>",
        "as",
        {"num": ["1", None, "-3"], "text": ["a", "\u00e9"], "null": None},
        literal="ARRAY['1', '2']",
    ),
    Source(
        "MAP<STRING, INT>",
        "ms",
        {"one": {"a": 1}, "empty": {}, "null": None},
        literal="MAP['a', 1]",
    ),
    Source("MULTISET<STRING>", "mu", {"one": {"a": 2}, "empty": {}, "null": None}),
    Source(
        "ROW<x INT, y STRING>",
        "ro",
        {"one": {"x": 1, "y": "a"}, "part": {"x": None, "y": "2"}, "null": None},
        literal="ROW(1, 'a')",
    ),
    Source(
        "VARIANT",
        "va",
        {},
        {
            "num": "PARSE_JSON(st_int)",
            "text": "PARSE_JSON('\"' || st_bad || '\"')",
            "null": "PARSE_JSON(st_null)",
        },
    ),
]
TARGETS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 10)", "CHAR(4)",
    "VARCHAR(3)", "STRING", "BINARY(2)", "VARBINARY(2)", "BYTES", "DATE", "TIME", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)",
    "TIMESTAMP(9)", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)", "INTERVAL YEAR", "INTERVAL DAY TO SECOND(3)", "ARRAY<BIGINT>",
    "ARRAY<STRING>", "MAP<STRING, BIGINT>", "MULTISET<STRING>", "ROW<a BIGINT, b STRING>", "VARIANT",
]  # fmt: skip


def table() -> tuple[str, str]:
    """The definition of the table, and its row."""
    real = [(c, s.type) for s in SOURCES for c in s.columns[: len(s.values)]]
    computed = [f"{e} AS {s.prefix}_{n}" for s in SOURCES for n, e in s.computed.items()]
    ddl = (
        "CREATE TEMPORARY TABLE base (\n  "
        + ",\n  ".join(f"{c} {t}" for c, t in real)
        + "\n) WITH ('connector' = 'filesystem', 'path' = '${DATA}/types.json',\n"
        "  'format' = 'json', 'json.timestamp-format.standard' = 'SQL');\n"
        "CREATE TEMPORARY VIEW t AS SELECT *,\n  " + ",\n  ".join(computed) + "\nFROM base;\n"
    )
    row = {f"{s.prefix}_{n}": v for s in SOURCES for n, v in s.values.items()}
    return ddl, json.dumps(row, ensure_ascii=False) + "\n"


def _refused(name: str) -> set[str]:
    """The expressions of a recorded file that Flink refuses."""
    path = FOLDER / name
    lines = map(json.loads, path.read_text().splitlines()[1:]) if path.exists() else ()
    return {line["expr"] for line in lines if (line["error"] or "").startswith("refused")}


def casts() -> Iterator[str]:
    """All columns of a type to all types; from a type whose casts Flink refuses, the first column
    only."""
    refused = _refused("casts.jsonl")
    for source, target in product(SOURCES, TARGETS):
        first = f"CAST({source.first} AS {target})"
        yield first
        if first in refused or not refused:
            continue
        yield from (f"CAST({c} AS {target})" for c in source.columns)
        if source.prefix == "st":
            yield from (f"TRY_CAST({c} AS {target})" for c in source.columns)


# Types that differ from another one in no operator's rules are left out here.
_OPERANDS = [s for s in SOURCES if s.prefix not in ("vc", "vb", "as", "mu")]
OPERATORS = ("+", "-", "*", "/", "%")
COMPARISONS = ("=", "<", "IS DISTINCT FROM")


def pairs(name: str, operators: tuple[str, ...]) -> Iterator[str]:
    """All pairs of types; further values of those that Flink accepts, and one operator only of
    those that it refuses."""
    refused = _refused(name)
    for (left, right), operator in product(product(_OPERANDS, _OPERANDS), operators):
        first = f"{left.first} {operator} {right.first}"
        if first not in refused or operator == operators[0]:
            yield first
        if first not in refused and refused:
            second, last = (
                left.columns[1 % len(left.columns)],
                right.columns[2 % len(right.columns)],
            )
            yield f"{second} {operator} {right.columns[1 % len(right.columns)]}"
            yield f"{second} {operator} {last}"
            yield f"{left.columns[-1]} {operator} {right.first}"


def constants() -> Iterator[str]:
    refused = _refused("casts.jsonl")
    for source, target in product(SOURCES, TARGETS):
        if source.literal and f"CAST({source.first} AS {target})" not in refused:
            yield f"CAST({source.literal} AS {target})"


def write(name: str, lines: Iterator[str], setup: bool = True) -> None:
    head = ["-- setup: types.sql", "-- table: t"] if setup else []
    (FOLDER / name).write_text("\n".join([*head, *dict.fromkeys(lines)]) + "\n")


def main() -> None:
    ddl, row = table()
    (FOLDER / "types.sql").write_text(ddl)
    (FOLDER / "types.json").write_text(row)
    write("casts.exprs", casts())
    write("cast_constants.exprs", constants(), setup=False)
    write("arithmetic.exprs", pairs("arithmetic.jsonl", OPERATORS))
    write("comparison.exprs", pairs("comparison.jsonl", COMPARISONS))


if __name__ == "__main__":
    main()
