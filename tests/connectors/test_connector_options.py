"""Every mistake in WITH options is named before anything is opened."""

from __future__ import annotations

import pytest

from parser.errors import PlanError, SqlError, UnsupportedError
from parser.types import BIGINT, BYTES, INT, STRING, DataType, Schema, map_of, timestamp_ltz
from sqlengine.connectors.registry import (
    connector_names,
    get_connector,
    open_sink,
    open_source,
    validate,
)
from tests.connectors.tables import environment, table

TOPIC = {"connector": "topic", "topic": "x", "format": "json"}
GEN = {"connector": "datagen"}

SLOT = {
    "connector": "postgres-cdc",
    "hostname": "h",
    "username": "u",
    "database-name": "d",
    "table-name": "t",
}
CASES: list[tuple[dict[str, str], str, str]] = [
    ({}, "table 't' needs the option 'connector'", "one of blackhole, datagen"),
    ({"connector": "topik"}, "unknown connector 'topik' of table 't'", "did you mean 'topic'?"),
    ({**TOPIC, "topc": "y"}, "unknown option 'topc' of table 't'", "did you mean 'topic'?"),
    (
        {"connector": "topic", "format": "json"},
        "table 't' needs the option 'topic'",
        "the topic's name",
    ),
    (
        {"connector": "topic", "topic": "x"},
        "table 't' needs the option 'format'",
        "for example 'format' = 'json'",
    ),
    ({**TOPIC, "format": "jsn"}, "table 't': unknown format 'jsn'", "did you mean 'json'?"),
    (
        {**TOPIC, "json.ignore-errors": "true"},
        "unknown option 'json.ignore-errors' of table 't'",
        "did you mean 'json.ignore-parse-errors'?",
    ),
    (
        {**TOPIC, "ignore-parse-errors": "true"},
        "unknown option 'ignore-parse-errors' of table 't'",
        "did you mean 'json.ignore-parse-errors'?",
    ),
    (
        {**TOPIC, "value.json.ignore-parse-errors": "true"},
        "unknown option 'value.json.ignore-parse-errors' of table 't'",
        "did you mean 'json.ignore-parse-errors'?",
    ),
    (
        {**TOPIC, "scan.startup.mod": "earliest-offset"},
        "unknown option 'scan.startup.mod' of table 't'",
        "did you mean 'scan.startup.mode'?",
    ),
    ({**TOPIC, "csv.null-literal": "x"}, "unknown option 'csv.null-literal' of table 't'", ""),
    (
        {**TOPIC, "scan.startup.mode": "first"},
        "bad value 'first' for option 'scan.startup.mode'",
        "",
    ),
    ({**TOPIC, "scan.startup.timestamp-millis": "-1"}, "bad value '-1'", ""),
    (
        {**TOPIC, "properties.group.id": " \n"},
        "bad value ' \n' for option 'properties.group.id'",
        "",
    ),
    (
        {
            "connector": "filesystem",
            "path": "/x",
            "format": "json",
            "source.monitor-interval": "soon",
        },
        "bad value 'soon'",
        "",
    ),
    (
        {**GEN, "fields.nam.kind": "random"},
        "unknown option 'fields.nam.kind'",
        "did you mean 'fields.name.kind'?",
    ),
    ({**GEN, "fields.id.null-rate": "2"}, "bad value '2'", ""),
    (
        {"connector": "print", "format": "json"},
        "unknown option 'format' of table 't'",
        "connector 'print' has no format",
    ),
    ({**SLOT, "slot.name": "A-b"}, "bad value 'A-b' for option 'slot.name' of table 't'", ""),
    (
        {**SLOT, "slot.name": "a", "format": "json"},
        "unknown option 'format'",
        "connector 'postgres-cdc' has no format",
    ),
]


@pytest.mark.parametrize(("options", "message", "hint"), CASES)
def test_a_mistake_is_named(options: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        validate(table(options))
    assert caught.value.message.startswith(message)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"offst": INT}, "connector 'topic' has no metadata 'offst'"),
        (
            {"offset": BYTES},
            "metadata 'offset' of connector 'topic' is BIGINT, which cannot be cast",
        ),
    ],
)
def test_metadata_columns_are_checked(metadata: dict[str, DataType], message: str) -> None:
    validate(
        table(
            TOPIC,
            metadata={"offset": BIGINT, "key": BYTES, "timestamp": timestamp_ltz(6)},
        )
    )
    with pytest.raises(PlanError, match=message):
        validate(table(TOPIC, metadata=metadata))


def test_a_format_refuses_types_that_it_cannot_hold() -> None:
    with pytest.raises(UnsupportedError, match="JSON cannot hold MAP<INT, STRING>"):
        validate(table(TOPIC, Schema.of(m=map_of(INT, STRING))))


@pytest.mark.parametrize(
    ("options", "which", "message"),
    [
        ({"connector": "print"}, "source", "cannot be read"),
        ({"connector": "blackhole"}, "source", "cannot be read"),
        (GEN, "sink", "cannot be written"),
        ({**TOPIC}, "source", "there is no broker here"),
        ({**TOPIC, "topic": "_jobs"}, "sink", "belongs to the system"),
        (
            {"connector": "filesystem", "path": "s3://b/x", "format": "json"},
            "source",
            "is not on this machine",
        ),
        (
            {"connector": "filesystem", "path": "/no/such/place", "format": "json"},
            "source",
            "there is no file or folder",
        ),
        (
            {**GEN, "fields.id.kind": "sequence"},
            "source",
            "column 'id' needs the option 'fields.id.start'",
        ),
        ({**GEN, "fields.id.min": "9", "fields.id.max": "1"}, "source", "are no range of BIGINT"),
        (
            {**GEN, "fields.id.min": "x"},
            "source",
            "bad value 'x' for option 'fields.id.min' of a BIGINT",
        ),
    ],
)
def test_what_cannot_be_opened(options: dict[str, str], which: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        (open_source if which == "source" else open_sink)(table(options), environment())


def test_every_option_of_every_connector_has_a_sound_default() -> None:
    for name in connector_names():
        connector = get_connector(name)
        assert connector is not None
        for option in connector.options.values():
            assert option.default is None or option.parse(option.default) is not None
