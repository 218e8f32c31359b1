"""Requests of OTLP/HTTP with log records, in JSON and protobuf, and the answers to them.

JSON is read as the specification has it: ids in hexadecimal, 64-bit numbers as texts or numbers,
fields that are not known left out."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from parser.errors import PlanError, ServiceError
from sqlengine.connectors.otlp.rows import LogRow, severity_of, time_text
from sqlengine.connectors.otlp.sizes import MOST, has_too_many_messages, has_too_many_objects

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue as ProtoValue
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue as ProtoPair
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoRecord

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
REMEDY: Final = "pip install 'sqlengine[otlp]'"
_DEEPEST: Final = 64


class BadMessage(ServiceError):
    """A request is none of OTLP."""


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Value(_Struct):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None


class _Values(_Struct):
    values: list[_Value] = []


class _Pair(_Struct):
    key: str = ""
    value: _Value | None = None


class _Pairs(_Struct):
    values: list[_Pair] = []


class _Resource(_Struct):
    attributes: list[_Pair] = []


class _Scope(_Struct):
    name: str = ""
    version: str = ""
    attributes: list[_Pair] = []


class _Record(_Struct):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    severity_number: int = 0
    severity_text: str = ""
    body: _Value | None = None
    attributes: list[_Pair] = []
    dropped_attributes_count: int = 0
    flags: int = 0
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""


class _ScopeLogs(_Struct):
    scope: _Scope | None = None
    log_records: list[_Record] = []


class _ResourceLogs(_Struct):
    resource: _Resource | None = None
    scope_logs: list[_ScopeLogs] = []


class _Request(_Struct):
    resource_logs: list[_ResourceLogs] = []


_DECODER: Final = msgspec.json.Decoder(_Request)


def rows_of_json(body: bytes) -> list[LogRow]:
    """Returns the log records of a request in JSON. BadMessage where it is none, or has too many
    objects."""
    if has_too_many_objects(body):
        raise _too_many()
    try:
        return list(_json_rows(_DECODER.decode(body)))
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadMessage(
            "the body is no request of OTLP in JSON", detail=str(error)[:300]
        ) from None


def _too_many() -> BadMessage:
    return BadMessage(
        "the request has too many log records",
        detail=f"with attributes and values it has {MOST:,} at most",
        hint="send fewer at once",
    )


def _json_rows(request: _Request) -> Iterator[LogRow]:
    for by_resource in request.resource_logs:
        resource = _texts_of(by_resource.resource.attributes) if by_resource.resource else None
        for by_scope in by_resource.scope_logs:
            scope = by_scope.scope or _Scope()
            of_scope = _texts_of(scope.attributes)
            for r in by_scope.log_records:
                yield LogRow(
                    time_text(int(r.time_unix_nano)),
                    time_text(int(r.observed_time_unix_nano)),
                    severity_of(r.severity_number, r.severity_text),
                    r.severity_number or None,
                    None if r.body is None else _text(_plain(r.body)),
                    _texts_of(r.attributes),
                    resource,
                    scope.name or None,
                    scope.version or None,
                    of_scope,
                    r.trace_id.lower() or None,
                    r.span_id.lower() or None,
                    r.flags or None,
                    r.event_name or None,
                    r.dropped_attributes_count or None,
                )


def _texts_of(pairs: Iterable[_Pair]) -> dict[str, str] | None:
    found = {p.key: _text(_plain(p.value)) or "" for p in pairs if p.value is not None}
    return found or None


def _plain(value: _Value, depth: int = 0) -> object:
    """Returns a value as JSON has it."""
    if depth > _DEEPEST:
        raise ValueError(f"values lie {_DEEPEST} deep in each other, or more")
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return int(value.int_value)
    if value.double_value is not None:
        return float(value.double_value)
    if value.array_value is not None:
        return [_plain(v, depth + 1) for v in value.array_value.values]
    if value.kvlist_value is not None:
        pairs = value.kvlist_value.values
        return {p.key: None if p.value is None else _plain(p.value, depth + 1) for p in pairs}
    return value.bytes_value


def _text(value: object) -> str | None:
    """Returns a text as it is, any other value as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def rows_of_protobuf(body: bytes) -> list[LogRow]:
    """Returns the log records of a request in protobuf. BadMessage where it is none, or has too
    many messages, PlanError where the library is not installed."""
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    except ImportError:
        raise PlanError("OTLP in protobuf needs opentelemetry-proto", hint=REMEDY) from None
    if has_too_many_messages(body):
        raise _too_many()
    request = ExportLogsServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise BadMessage("the body is no request of OTLP in protobuf", detail=str(error)) from None
    found = []
    for by_resource in request.resource_logs:
        resource = _proto_texts(by_resource.resource.attributes)
        for by_scope in by_resource.scope_logs:
            scope = by_scope.scope
            told = (scope.name or None, scope.version or None, _proto_texts(scope.attributes))
            found += [_proto_row(r, resource, told) for r in by_scope.log_records]
    return found


def _proto_row(
    r: ProtoRecord,
    resource: dict[str, str] | None,
    scope: tuple[str | None, str | None, dict[str, str] | None],
) -> LogRow:
    return LogRow(
        time_text(r.time_unix_nano),
        time_text(r.observed_time_unix_nano),
        severity_of(r.severity_number, r.severity_text),
        r.severity_number or None,
        _text(_proto_plain(r.body)),
        _proto_texts(r.attributes),
        resource,
        *scope,
        r.trace_id.hex() or None,
        r.span_id.hex() or None,
        r.flags or None,
        r.event_name or None,
        r.dropped_attributes_count or None,
    )


def _proto_texts(pairs: Iterable[ProtoPair]) -> dict[str, str] | None:
    found = {p.key: _text(_proto_plain(p.value)) or "" for p in pairs}
    return found or None


def _proto_plain(value: ProtoValue) -> object:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value":
        return value.string_value
    if kind == "array_value":
        return [_proto_plain(v) for v in value.array_value.values]
    if kind == "kvlist_value":
        return {p.key: _proto_plain(p.value) for p in value.kvlist_value.values}
    found: Any = getattr(value, kind)
    return base64.b64encode(found).decode() if isinstance(found, bytes) else found


def answer(kind: str, rejected: int = 0, why: str = "") -> bytes:
    """Returns the answer to a request in its own encoding: how many records were rejected, and
    why."""
    if kind == JSON:
        partial = {"rejectedLogRecords": str(rejected), "errorMessage": why}
        return msgspec.json.encode({"partialSuccess": partial} if rejected else {})
    if not rejected:
        return b""
    partial_success = b"\x08" + _varint(rejected) + _text_field(2, why)
    return b"\x0a" + _varint(len(partial_success)) + partial_success


def failure(why: str) -> bytes:
    """Returns the answer to a request in protobuf that was not taken: a google.rpc.Status."""
    return _text_field(2, why)


def _text_field(number: int, text: str) -> bytes:
    data = text.encode()
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
