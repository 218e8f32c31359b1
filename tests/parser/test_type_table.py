"""The table of types in `docs/types.md` is that of `parser.types` and `parser.type_forms`; `pytest
--update` writes it."""

from __future__ import annotations

from parser.grammar.datatypes import parse_type
from parser.type_forms import to_json_form, to_spark
from tests.support import ROOT

PAGE = ROOT / "docs" / "types.md"
TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(10; 2), CHAR(3), VARCHAR(3),"
    " STRING, BINARY(3), VARBINARY(3), BYTES, DATE, TIME(0), TIMESTAMP(3), TIMESTAMP(6),"
    " TIMESTAMP(9), TIMESTAMP_LTZ(3), INTERVAL DAY, INTERVAL MONTH, ARRAY<INT>, MAP<STRING; INT>,"
    " MULTISET<STRING>, ROW<x INT; y STRING>, VARIANT, NULL"
)
HEAD = """# Types

What holds the values of a type in a column, in JSON and on Spark. This page is generated (`pytest --update`).

| SQL | Arrow | JSON | Spark |
|---|---|---|---|
"""


def page() -> str:
    rows = []
    for kind in (parse_type(t.replace(";", ",")) for t in TYPES.split(", ")):
        sql, arrow, spark = (
            f"`` {c} ``" if "`" in c else f"`{c}`"
            for c in (str(kind), str(kind.arrow), to_spark(kind))
        )
        rows.append(f"| {sql} | {arrow} | {to_json_form(kind)} | {spark} |\n")
    return HEAD + "".join(rows)


def test_table_is_up_to_date(update: bool) -> None:
    if update:
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_names_of_types_are_read_back() -> None:
    for name in (t.replace(";", ",") for t in TYPES.split(", ") if not t.startswith("INTERVAL")):
        assert parse_type(str(parse_type(name)) + " NOT NULL") == parse_type(name).with_nullable(
            False
        )
