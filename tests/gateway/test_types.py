"""Values and types of the gateway: Flink's JSON format, and the texts of its SQL client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.client import Session

VARCHAR = {"type": "VARCHAR", "nullable": False, "length": 2147483647}
INTEGER = {"type": "INTEGER", "nullable": False}
# Expression, type, value as JSON, value as text.
CASES: list[tuple[str, dict[str, Any], Any, str]] = [
    ("TRUE", {"type": "BOOLEAN"}, True, "TRUE"),
    ("CAST(1 AS TINYINT)", {"type": "TINYINT"}, 1, "1"),
    ("CAST(-2 AS SMALLINT)", {"type": "SMALLINT"}, -2, "-2"),
    ("3", {"type": "INTEGER"}, 3, "3"),
    ("9007199254740993", {"type": "BIGINT"}, 9007199254740993, "9007199254740993"),
    ("CAST(1.5 AS FLOAT)", {"type": "FLOAT"}, 1.5, "1.5"),
    ("CAST(1e10 AS DOUBLE)", {"type": "DOUBLE"}, 1e10, "1.0E10"),
    ("CAST(12.50 AS DECIMAL(10, 2))", {"type": "DECIMAL", "precision": 10, "scale": 2}, 12.5, "12.50"),
    ("'a\"\n'", {"type": "CHAR", "length": 3}, 'a"\n', 'a"\n'),
    ("CAST('ü' AS STRING)", {"type": "VARCHAR", "length": 2147483647}, "ü", "ü"),
    ("X'4142'", {"type": "BINARY", "length": 2}, "QUI=", "x'4142'"),
    ("CAST(X'00ff' AS BYTES)", {"type": "VARBINARY", "length": 2147483647}, "AP8=", "x'00ff'"),
    ("DATE '2020-01-02'", {"type": "DATE"}, "2020-01-02", "2020-01-02"),
    ("TIME '03:04:05'", {"type": "TIME_WITHOUT_TIME_ZONE", "precision": 0}, "03:04:05", "03:04:05"),
    (
        "TIMESTAMP '2020-01-02 03:04:05.678'",
        {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3},
        "2020-01-02T03:04:05.678",
        "2020-01-02 03:04:05.678",
    ),
    (
        "TO_TIMESTAMP_LTZ(1577934245678, 3)",
        {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3},
        "2020-01-02T03:04:05.678Z",
        "2020-01-02 12:04:05.678",
    ),
    (
        "INTERVAL '1 02:03:04' DAY TO SECOND",
        {"type": "INTERVAL_DAY_TIME", "precision": 2, "fractionalPrecision": 3, "resolution": "SECOND"},
        93784000,
        "+1 02:03:04.000",
    ),
    (
        "INTERVAL '1-2' YEAR TO MONTH",
        {"type": "INTERVAL_YEAR_MONTH", "precision": 2, "resolution": "MONTH"},
        14,
        "+1-02",
    ),
    ("ARRAY[1, 2]", {"type": "ARRAY", "elementType": INTEGER}, [1, 2], "[1, 2]"),
    (
        "MAP['k', 1]",
        {"type": "MAP", "keyType": {"type": "CHAR", "nullable": False, "length": 1}, "valueType": INTEGER},
        {"k": 1},
        "{k=1}",
    ),
    (
        "CAST(ROW(1, 'x') AS ROW<a INT NOT NULL, b STRING NOT NULL>)",
        {"type": "ROW", "fields": [{"name": "a", "fieldType": INTEGER}, {"name": "b", "fieldType": VARCHAR}]},
        {"a": 1, "b": "x"},
        "(1, x)",
    ),
    ("ARRAY[ARRAY[X'41']]", {"type": "ARRAY", "elementType": {"type": "ARRAY", "nullable": False, "elementType": {"type": "BINARY", "nullable": False, "length": 1}}}, [["QQ=="]], "[[x'41']]"),
    ("PARSE_JSON('{\"a\": 1}')", {"type": "VARCHAR", "length": 2147483647}, '{"a":1}', '{"a":1}'),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "kind", "value", "text"), CASES, ids=[c[0] for c in CASES])
def test_a_value_in_both_forms(
    session: Session, expression: str, kind: dict[str, Any], value: Any, text: str
) -> None:
    session.run("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    result = session.run(f"SELECT {expression}")
    found = result.columns[0]["logicalType"]
    assert {**found, "nullable": False} == {**kind, "nullable": False}
    assert result.rows == [[value]]
    assert session.rows(f"SELECT {expression}", "PLAIN_TEXT") == [[text]]


def test_null_is_null_in_both_forms(session: Session) -> None:
    sql = "SELECT CAST(NULL AS INT) AS a, CAST(NULL AS ARRAY<INT>) AS b, ARRAY[CAST(NULL AS INT)] AS c"
    assert session.rows(sql) == [[None, None, [None]]]
    assert session.rows(sql, "PLAIN_TEXT") == [[None, None, "[NULL]"]]


def test_numbers_that_json_has_not(session: Session) -> None:
    assert session.rows("SELECT CAST('NaN' AS DOUBLE)", "PLAIN_TEXT") == [["NaN"]]
