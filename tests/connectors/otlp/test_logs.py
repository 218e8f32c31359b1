"""Log records by OTLP/HTTP: JSON and protobuf bring the same rows, answers are OTLP's, and the real
SDK exports to the server."""

from __future__ import annotations

import gzip
import http.client
import json
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from parser.errors import UnsupportedError
from parser.types import BIGINT, INT, STRING, Schema, map_of, timestamp, timestamp_ltz
from sqlengine.connectors.otlp.messages import (
    JSON,
    PROTOBUF,
    BadMessage,
    _varint,
    answer,
    failure,
    rows_of_json,
    rows_of_protobuf,
)
from sqlengine.connectors.otlp.rows import LogRow
from sqlengine.connectors.registry import capabilities_of
from tests.connectors.tables import table
from tests.service.harness import User, running
from tests.support import eventually

service_pb2 = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2")

LOGS = """
CREATE TABLE logs (ts TIMESTAMP_LTZ(9), severity STRING, severity_number INT, body STRING,
  attributes MAP<STRING, STRING>, resource MAP<STRING, STRING>, scope_name STRING, trace_id STRING)
WITH ('connector' = 'otlp');
CREATE TABLE seen (t STRING, severity STRING, body STRING, host STRING, service STRING, scope_name STRING, trace_id STRING)
WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""
COPY = """INSERT INTO seen SELECT CAST(ts AS STRING), severity, body, attributes['host'],
  resource['service.name'], scope_name, trace_id FROM logs"""
REQUEST: dict[str, Any] = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeLogs": [
                {
                    "scope": {"name": "lib", "version": "1"},
                    "logRecords": [
                        {
                            "timeUnixNano": "1767323045123456789",
                            "observedTimeUnixNano": 1767323046000000000,
                            "severityNumber": 17,
                            "body": {"stringValue": "é failed"},
                            "attributes": [
                                {"key": "host", "value": {"stringValue": "db1"}},
                                {"key": "n", "value": {"intValue": "9007199254740993"}},
                                {"key": "ok", "value": {"boolValue": False}},
                                {"key": "x", "value": {"doubleValue": 0.5}},
                                {"key": "raw", "value": {"bytesValue": "AQI="}},
                                {
                                    "key": "list",
                                    "value": {
                                        "arrayValue": {
                                            "values": [
                                                {"stringValue": "a"},
                                                {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}},
                                            ]
                                        }
                                    },
                                },
                            ],
                            "traceId": "0AF7651916CD43DD8448EB211C80319C",
                            "spanId": "b7ad6b7169203331",
                            "flags": 1,
                            "unknownField": [1],
                        },
                        {"severityText": "odd", "severityNumber": 9, "body": {"intValue": 7}},
                        {},
                    ],
                }
            ],
        },
        {"scopeLogs": [{"logRecords": [{"body": {"arrayValue": {"values": [{"doubleValue": 1}]}}}]}]},
    ]
}  # fmt: skip


def protobuf() -> bytes:
    """The request in protobuf, made by the library; its JSON has ids in base64."""
    import base64

    from google.protobuf import json_format

    request = json.loads(json.dumps(REQUEST))
    record = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    for name in ("traceId", "spanId"):
        record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
    message = service_pb2.ExportLogsServiceRequest()
    json_format.ParseDict(request, message, ignore_unknown_fields=True)
    found: bytes = message.SerializeToString()
    return found


def test_both_encodings_bring_the_same_rows() -> None:
    rows = rows_of_json(json.dumps(REQUEST).encode())
    assert rows == rows_of_protobuf(protobuf())
    resource = {"service.name": "shop"}
    assert rows == [
        LogRow(
            ts="2026-01-02 03:04:05.123456789Z",
            observed_ts="2026-01-02 03:04:06.000000000Z",
            severity="ERROR",
            severity_number=17,
            body="é failed",
            attributes={
                "host": "db1", "n": "9007199254740993", "ok": "false", "x": "0.5", "raw": "AQI=",
                "list": '["a",{"k":1}]',
            },
            resource=resource, scope_name="lib", scope_version="1",
            trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331", flags=1,
        ),
        LogRow(severity="odd", severity_number=9, body="7", resource=resource, scope_name="lib", scope_version="1"),
        LogRow(resource=resource, scope_name="lib", scope_version="1"),
        LogRow(body="[1.0]"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"resourceLogs": 1}', b'{"resourceLogs":' + b"[" * 100_000]
)
def test_what_is_no_request_in_json(body: bytes) -> None:
    with pytest.raises(BadMessage, match="no request of OTLP in JSON"):
        rows_of_json(body)


def test_values_that_lie_too_deep() -> None:
    deep: dict[str, Any] = {"stringValue": "x"}
    for _ in range(100):
        deep = {"arrayValue": {"values": [deep]}}
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": deep}]}]}]}
    with pytest.raises(BadMessage):
        rows_of_json(json.dumps(request).encode())


def test_what_is_no_request_in_protobuf() -> None:
    with pytest.raises(BadMessage, match="protobuf"):
        rows_of_protobuf(b"\xff\xff\xff")


def nested(kind: str) -> tuple[bytes, bytes]:
    """Requests in JSON and protobuf with millions of empty records, attributes, values or
    resources."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + _varint(len(data)) + data

    many = 6_000_000
    empty = b"{}" + b",{}" * many
    match kind:
        case "records":
            text, data = b'"logRecords":[%s]' % empty, b"\x12\x00" * many
        case "records, with longer tags":
            text, data = b'"logRecords":[{"body":{}}%s]' % (b",{}" * many), b"\x92\x00\x00" * many
        case "attributes":
            text = b'"logRecords":[{"attributes":[%s]}]' % empty
            data = field(2, b"\x32\x00" * many)
        case _:
            text = b'"logRecords":[{"body":{"arrayValue":{"values":[%s]}}}]' % empty
            data = field(2, field(5, field(5, b"\x0a\x00" * many)))
    return b'{"resourceLogs":[{"scopeLogs":[{%s}]}]}' % text, field(1, field(2, data))


@pytest.mark.parametrize("kind", ["records", "records, with longer tags", "attributes", "values"])
def test_empty_messages_have_a_bound(kind: str) -> None:
    text, data = nested(kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read, body in ((rows_of_json, text), (rows_of_protobuf, data)):
        with pytest.raises(BadMessage, match="too many log records") as refused:
            read(body)
        assert "send fewer" in str(refused.value.hint)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_what_looks_like_many_messages_is_read() -> None:
    """Texts with the bytes of tags and with braces."""
    text = ("{*2\n" * 300_000) + '"\\'
    records = [{"body": {"stringValue": text}} for _ in range(4)]
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    message = service_pb2.ExportLogsServiceRequest()
    for _ in records:
        scope = message.resource_logs.add().scope_logs.add()
        scope.log_records.add().body.string_value = text
    found = rows_of_json(json.dumps(request).encode())
    assert [row.body for row in found] == [text] * 4
    assert rows_of_protobuf(message.SerializeToString()) == found


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a" * 2_000_000,
        b"\x0a" + b"\x8a" * 2_000_000,
        b"\x0a\xff\xff\xff\x0f" + b"\x12" * 3_000_001,
    ],
)
def test_damaged_protobuf_is_refused_however_long(body: bytes) -> None:
    with pytest.raises(BadMessage):
        rows_of_protobuf(body)


def test_answers_are_what_clients_read() -> None:
    response = service_pb2.ExportLogsServiceResponse()
    response.ParseFromString(answer(PROTOBUF, 300, "too large"))
    assert response.partial_success.rejected_log_records == 300
    assert response.partial_success.error_message == "too large"
    assert answer(PROTOBUF) == b""
    assert json.loads(answer(JSON)) == {}
    assert json.loads(answer(JSON, 2, "why"))["partialSuccess"]["rejectedLogRecords"] == "2"
    assert failure("é").startswith(b"\x12")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema.of(bodi=STRING), "no 'bodi'"),
        (Schema.of(ts=timestamp(3)), "TIMESTAMP_LTZ"),
        (Schema.of(severity_number=BIGINT), "INT"),
        (Schema.of(attributes=map_of(STRING, INT)), "MAP"),
    ],
)
def test_columns_are_those_of_log_records(schema: Schema, words: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        capabilities_of(table({"connector": "otlp"}, schema))
    assert words in f"{error.value} {error.value.hint}"
    capabilities_of(table({"connector": "otlp"}, Schema.of(ts=timestamp_ltz(3), body=STRING)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, User]]:
    with running(tmp_path_factory.mktemp("otlp") / "data") as (service, user):
        user.topic("seen")
        user.submit("tables", LOGS)
        user.submit("copy", COPY)
        yield service.port, user


def post(port: int, body: bytes, kind: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request("POST", "/v1/logs", body, {"Content-Type": kind, **named})
        found = connection.getresponse()
        return found.status, found.read(), dict(found.headers)
    finally:
        connection.close()


def test_log_records_become_rows(server: tuple[int, User]) -> None:
    port, user = server
    before = len(user.read("seen"))
    packed = gzip.compress(protobuf())
    assert post(port, json.dumps(REQUEST).encode(), JSON)[:2] == (200, b"{}")
    assert post(port, packed, PROTOBUF, Content_Encoding="gzip")[:2] == (200, b"")
    eventually(lambda: len(user.read("seen")) == before + 8)
    rows = user.read("seen")[before:]
    assert rows[:4] == rows[4:]
    assert rows[0] == {
        "t": "2026-01-02 03:04:05.123456789", "severity": "ERROR", "body": "é failed", "host": "db1",
        "service": "shop", "scope_name": "lib", "trace_id": "0af7651916cd43dd8448eb211c80319c",
    }  # fmt: skip
    assert [r["body"] for r in rows[1:4]] == ["7", None, "[1.0]"]


def test_requests_that_are_refused(server: tuple[int, User]) -> None:
    port, _ = server
    assert post(port, b"{", JSON)[0] == 400
    status, body, _ = post(port, b"\xff", PROTOBUF)
    assert (status, body[:1]) == (400, b"\x12")
    assert post(port, b"x", "text/plain")[0] == 415


def test_records_that_are_too_large_are_told_and_others_taken(server: tuple[int, User]) -> None:
    port, user = server
    before = len(user.read("seen"))
    records = [{"body": {"stringValue": "x" * (11 << 20)}}, {"body": {"stringValue": "small"}}]
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    status, body, _ = post(port, json.dumps(request).encode(), JSON)
    assert (status, json.loads(body)["partialSuccess"]["rejectedLogRecords"]) == (200, "1")
    eventually(lambda: [r["body"] for r in user.read("seen")[before:]] == ["small"])


def test_numbers_that_no_column_holds_cost_no_row(server: tuple[int, User]) -> None:
    port, user = server
    before = len(user.read("seen"))
    odd: list[dict[str, Any]] = [
        {"severityNumber": 2**40, "body": {"stringValue": "a"}},
        {
            "severityNumber": 9,
            "timeUnixNano": "-62135596800000000000",
            "body": {"stringValue": "b"},
        },
        {"severityNumber": 9, "body": {"stringValue": "c"}},
    ]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": odd}]}]}).encode()
    assert post(port, body, JSON)[0] == 200
    eventually(lambda: [r["body"] for r in user.read("seen")[before:]] == ["a", "b", "c"])


def test_what_all_records_share_is_counted_for_each(server: tuple[int, User]) -> None:
    """A megabyte of attributes of a resource, of a hundred thousand records, would be 100 GB."""
    port, user = server
    before = len(user.read("seen"))
    resource = {"attributes": [{"key": "k", "value": {"stringValue": "x" * (1 << 20)}}]}
    records = [{"body": {"stringValue": "first"}}, *[{}] * 100_000]
    request = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": records}]}]}
    status, body, _ = post(port, json.dumps(request).encode(), JSON)
    told = json.loads(body)["partialSuccess"]
    assert status == 200
    assert int(told["rejectedLogRecords"]) > 99_900
    assert "send fewer" in told["errorMessage"]
    eventually(lambda: len(user.read("seen")) == before + 100_001 - int(told["rejectedLogRecords"]))
    assert user.read("seen")[before]["body"] == "first"


def test_the_real_exporter_is_answered(server: tuple[int, User]) -> None:
    pytest.importorskip("opentelemetry.sdk._logs")
    from opentelemetry._logs import SeverityNumber
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    port, user = server
    before = len(user.read("seen"))
    provider = LoggerProvider(resource=Resource.create({"service.name": "real"}))
    url = f"http://127.0.0.1:{port}/v1/logs"
    exporter = OTLPLogExporter(endpoint=url, compression=Compression.Gzip)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("real.lib", "1")
    for number in range(100):
        logger.emit(
            timestamp=number + 1,
            severity_number=SeverityNumber.WARN,
            body=f"message {number}",
            attributes={"host": f"h{number}"},
        )
    assert provider.force_flush()
    provider.shutdown()
    rows = eventually(lambda: len(user.read("seen")) == before + 100 and user.read("seen")[before:])
    assert rows[7]["body"] == "message 7"
    assert {(r["service"], r["severity"], r["scope_name"]) for r in rows} == {
        ("real", "WARN", "real.lib")
    }
    assert [r["host"] for r in rows] == [f"h{n}" for n in range(100)]
