"""Arrays as PostgreSQL writes them in the changes of a table."""

from __future__ import annotations

import pytest

from parser.types import BIGINT, BOOLEAN, BYTES, STRING, Schema, array, decimal, timestamp_ltz
from sqlengine.connectors.changes.followed import line
from sqlengine.connectors.jdbc.array_literals import elements_of
from sqlengine.connectors.jdbc.copy_out import columns_of_csv
from tests.connectors.databases import Database
from tests.connectors.tables import table
from tests.servers.postgresql import PostgresServer

SCHEMA = Schema.of(
    whole=array(BIGINT), texts=array(array(STRING)), flags=array(BOOLEAN), exact=array(decimal(6, 2)),
    moments=array(timestamp_ltz(3)), raw=array(BYTES),
)  # fmt: skip


def test_elements_are_what_the_server_has(postgresql: PostgresServer) -> None:
    connection = Database(postgresql.url, "postgres").connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT " + ", ".join(f"({v})::text" for v in _columns()))
        (row,) = cursor.fetchall()
    finally:
        connection.close()
    record = line([str(v).encode() for v in row]) + b"\n"
    found = columns_of_csv(record, table({"table-name": "t"}, SCHEMA), elements_of)
    values = {name: column.to_pylist()[0] for name, column in found.items()}
    assert values["whole"] == [1, None, -3]
    assert values["texts"] == [['a"b,{}', "NULL"], ["\\ \n", None]]
    assert values["raw"] == [b"\x00\xff", None]
    assert values["flags"] == [True, False, None]
    assert [str(v) for v in values["exact"]] == ["1.50", "2.00"]
    assert [v.isoformat() for v in values["moments"]] == ["2024-01-01T12:00:00.500000+00:00"]


def _columns() -> list[str]:
    """The expressions of the row, in the order of the schema."""
    return [
        "ARRAY[1, NULL, -3]::bigint[]",
        """ARRAY[ARRAY['a"b,{}', 'NULL'], ARRAY[E'\\\\ \\n', NULL]]""",
        "ARRAY[true, false, NULL]",
        "ARRAY[1.5, 2]::numeric[]",
        "ARRAY['2024-01-01 12:00:00.5+00'::timestamptz]",
        "ARRAY['\\x00ff', NULL]::bytea[]",
    ]


@pytest.mark.parametrize(
    ("text", "elements"), [("{}", []), ("[0:1]={1,2}", ["1", "2"]), ('{""}', [""])]
)
def test_odd_arrays(text: str, elements: list[object]) -> None:
    assert elements_of(text) == elements


def test_what_is_no_array_is_told() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        elements_of("nonsense")
