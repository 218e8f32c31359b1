"""Records that are read and written: rows per CPU second by format, beside the libraries alone."""

from __future__ import annotations

import importlib.metadata
import io
import json
import time
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from benchmarks.page import Section, Table
from parser.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Schema,
    decimal,
    map_of,
    timestamp,
)
from sqlengine.batch import Batch, from_pydict
from sqlengine.formats.registry import get_format

ROWS = 20_000
SCHEMA = Schema.of(
    id=BIGINT, device=STRING, site=STRING, temperature=DOUBLE, humidity=DOUBLE, ok=BOOLEAN, seq=INT, at=timestamp(3),
    note=STRING, price=decimal(10, 2),
)  # fmt: skip
SYSLOG = Schema.of(facility=INT, severity=INT, timestamp=timestamp(3), host=STRING, app=STRING, procid=STRING, message=STRING)  # fmt: skip
_AT = 1_750_000_000_000
_TEXTS = map_of(STRING, STRING)


def batch() -> Batch:
    """Returns the rows of readings: ten columns, one of which is often NULL."""
    count = range(ROWS)
    return from_pydict(
        SCHEMA,
        {
            "id": [i * 7919 for i in count],
            "device": [f"device-{i % 1000}" for i in count],
            "site": ["berlin"] * ROWS,
            "temperature": [i * 0.5 for i in count],
            "humidity": [0.25] * ROWS,
            "ok": [i % 2 == 0 for i in count],
            "seq": list(count),
            "at": [_AT + i for i in count],
            "note": ["x" * 20 if i % 3 == 0 else None for i in count],
            "price": [Decimal(i).scaleb(-2) for i in count],
        },
    )


def rate(work: Callable[[], object]) -> float:
    """Returns rows per CPU second: the best of five runs, after one."""
    best = 0.0
    for _ in range(6):
        before = time.process_time()
        work()
        best = max(best, ROWS / (time.process_time() - before))
    return best


def _thousands(value: float) -> str:
    return f"{value / 1000:,.0f}k"


def _both(name: str, rows: Batch, options: dict[str, str]) -> tuple[str, ...]:
    encoder = get_format(name).encoder(rows.schema, options)
    decoder = get_format(name).decoder(rows.schema, options)
    records = encoder.encode(rows)
    size = sum(map(len, records.to_pylist())) / ROWS
    return (
        f"{size:.0f}",
        _thousands(rate(lambda: decoder.decode(records))),
        _thousands(rate(lambda: encoder.encode(rows))),
    )


def _fastavro(rows: Batch) -> tuple[str, ...]:
    import fastavro

    from sqlengine.formats.avro.derived import schema_of

    schema = fastavro.parse_schema(json.loads(schema_of(rows.schema, legacy=True)))
    values = rows.to_table().to_pylist()

    def written() -> list[bytes]:
        out = []
        for value in values:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, schema, value)
            out.append(stream.getvalue())
        return out

    records = written()

    def read() -> list[object]:
        return [fastavro.schemaless_reader(io.BytesIO(r), schema, None) for r in records]

    return (
        f"{sum(map(len, records)) / ROWS:.0f}",
        _thousands(rate(read)),
        _thousands(rate(written)),
    )


def _protobuf(rows: Batch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the rates of the format, and those of the library alone (messages, not columns)."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message_factory import GetMessages

    from sqlengine.formats.protobuf.descriptors import to_base64

    kept = rows.schema.select(tuple(n for n in rows.schema.names if n not in ("price", "at")))
    rows = rows.with_columns(kept, [rows.column(c.name) for c in kept])
    file = FileDescriptorProto(name="reading.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Reading")
    numbers = {"BIGINT": 3, "STRING": 9, "DOUBLE": 1, "BOOLEAN": 8, "INT": 5}
    for number, column in enumerate(kept, 1):
        kind = numbers[str(column.type)]
        message.field.add(name=column.name, number=number, label=1, type=kind)
    descriptor = to_base64(FileDescriptorSet(file=[file]).SerializeToString())
    options = {"message-class-name": "bench.Reading", "descriptor": descriptor}
    records = get_format("protobuf").encoder(kept, options).encode(rows).to_pylist()
    parse = GetMessages([file])["bench.Reading"].FromString
    messages = [parse(r) for r in records]
    alone = (
        _thousands(rate(lambda: [parse(r) for r in records])),
        _thousands(rate(lambda: [m.SerializeToString() for m in messages])),
    )
    ours = _both("protobuf", rows, options)
    return ours, (ours[0], *alone)


_EVENT = (
    "<Event><System><Provider Name='Security'/><EventID>4624</EventID><Level>0</Level><Channel>Security</Channel>"
    "<Computer>HOST{i}</Computer></System><EventData><Data Name='TargetUserName'>ann{i}</Data><Data"
    " Name='LogonType'>3</Data><Data Name='IpAddress'>10.0.0.1</Data></EventData></Event>"
)
_ENTRY = (
    '{{"__REALTIME_TIMESTAMP":"1767323045678901","PRIORITY":"6","_PID":"{i}","MESSAGE":"session {i} closed",'
    '"_SYSTEMD_UNIT":"ssh.service"}}'
)
LINES = {
    "syslog (RFC 5424)": (
        "syslog",
        SYSLOG,
        "<165>1 2026-08-24T05:14:15.003Z host-{i} app 8710 ID47 - login of user {i} failed",
        {},
    ),
    "syslog (RFC 3164)": (
        "syslog",
        SYSLOG,
        "<34>Oct 11 22:14:15 host-{i} su[{i}]: login of user {i} failed",
        {"year": "2026"},
    ),
    "cef": (
        "cef",
        Schema.of(name=STRING, severity=INT, src=STRING, dst=STRING, extension=_TEXTS),
        "CEF:0|Vendor|Wall|1.0|100|denied|10|src=10.0.0.1 dst=10.0.0.2 spt={i} dpt=443 proto=TCP msg=not allowed",
        {},
    ),
    "leef": (
        "leef",
        Schema.of(event_id=STRING, src=STRING, dst=STRING, attributes=_TEXTS),
        "LEEF:1.0|Vendor|Wall|1.0|deny|src=10.0.0.1\tdst=10.0.0.2\tsrcPort={i}\tproto=TCP",
        {},
    ),
    "key-value": (
        "key-value",
        Schema.of(user=STRING, action=STRING, took=DOUBLE, fields=_TEXTS),
        'user=ann{i} action="log in" took=1.5 host=h{i} port=443',
        {},
    ),
    "grok": (
        "grok",
        Schema.of(clientip=STRING, verb=STRING, request=STRING, response=INT, bytes=BIGINT),
        '10.0.0.1 - ann [10/Oct/2026:13:55:36 -0700] "GET /page/{i} HTTP/1.1" 200 2326',
        {"pattern": "%{COMMONAPACHELOG}"},
    ),
    "windows-event-xml": (
        "windows-event-xml",
        Schema.of(event_id=INT, computer=STRING, TargetUserName=STRING, event_data=_TEXTS),
        _EVENT,
        {},
    ),
    "journald": (
        "journald",
        Schema.of(timestamp=timestamp(6), priority=INT, message=STRING, fields=_TEXTS),
        _ENTRY,
        {},
    ),
}  # fmt: skip


def _line(title: str) -> tuple[str, ...]:
    name, schema, text, options = LINES[title]
    records = pa.array([text.format(i=i).encode() for i in range(ROWS)], pa.binary())
    decoder = get_format(name).decoder(schema, options)
    decoded = decoder.decode(records)
    assert not decoded.bad, decoded.bad[:3]
    size = sum(map(len, records.to_pylist())) / ROWS
    return title, f"{size:.0f}", _thousands(rate(lambda: decoder.decode(records)))


_SIDE_BY_SIDE = (
    "Avro is read side by side: one field of all records of a batch, then the next one; fastavro reads what is in"
    " batches of up to 128 records."
)


def run() -> Section:
    """Measures the formats of records, and those of lines of logs."""
    rows = batch()
    protobuf, alone = _protobuf(rows)
    fastavro, upb = (importlib.metadata.version(n) for n in ("fastavro", "protobuf"))
    records = [
        ("json", *_both("json", rows, {})),
        ("csv", *_both("csv", rows, {})),
        ("avro", *_both("avro", rows, {})),
        (f"fastavro {fastavro} alone", *_fastavro(rows)),
        ("protobuf (8 columns)", *protobuf),
        (f"protobuf {upb} alone, without columns", *alone),
    ]
    columns = ("format", "bytes a record", "read", "written")
    return Section(
        "formats",
        "Formats of records",
        f"Batches of {ROWS:,} records become columns, and columns records, in one thread: rows per CPU second. Readings"
        " have ten columns (texts, numbers, a boolean, a time, a decimal, one column with NULLs).",
        [
            Table("Readings", columns, records),
            Table("Lines of logs", ("format", "bytes a line", "read"), [_line(t) for t in LINES]),
        ],
        [
            _SIDE_BY_SIDE,
        ],
    )  # fmt: skip
