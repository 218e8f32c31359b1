"""Lines of logs as rows: each format's fields by name, the rest in a map, and what is malformed as
a dead letter with its reason."""

from __future__ import annotations

import datetime as dt
import json
import struct
import time as clock
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError, UnsupportedError
from parser.types import (
    BIGINT,
    DOUBLE,
    INT,
    STRING,
    DataType,
    Schema,
    array,
    map_of,
    timestamp,
    timestamp_ltz,
)
from sqlengine.formats.logs.journald import ExportFraming, parse_export
from sqlengine.formats.registry import get_format
from udf.text.security_events import parse_cef, parse_leef

TEXTS = map_of(STRING, STRING)
LTZ = timestamp_ltz(6)


def read(
    name: str, lines: list[bytes | str], columns: dict[str, DataType], **options: str
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows of lines, and why the others are none."""
    given = {k.replace("_", "-"): v for k, v in options.items()}
    schema = Schema.of(**columns)
    records = [x if isinstance(x, bytes) else x.encode() for x in lines]
    found = get_format(name).decoder(schema, given).decode(pa.array(records, pa.binary()))
    batch = pa.RecordBatch.from_arrays(list(found.columns), schema=schema.arrow)
    return batch.to_pylist(), {b.row: b.reason for b in found.bad}


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


SYSLOG = {
    "facility": INT, "severity": INT, "timestamp": LTZ, "host": STRING, "app": STRING, "procid": STRING,
    "msgid": STRING, "message": STRING,
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick on /dev/pts/8\n",
            [4, 2, utc(2003, 10, 11, 22, 14, 15, 3000), "mymachine.example.com", "su", None, "ID47",
             "'su root' failed for lonvick on /dev/pts/8"],
        ),
        (
            "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time",
            [20, 5, utc(2003, 8, 24, 12, 14, 15, 3), "192.0.2.1", "myproc", "8710", None, "%% It's time"],
        ),
        ("<0>1 - - - - - -", [0, 0, None, None, None, None, None, None]),
        (
            "<34>Oct 11 22:14:15 mymachine su[77]: 'su root' failed",
            [4, 2, utc(2026, 10, 11, 22, 14, 15), "mymachine", "su", "77", None, "'su root' failed"],
        ),
        (
            "Feb  5 17:32:18 10.0.0.99 Use the BFG!",
            [None, None, utc(2026, 2, 5, 17, 32, 18), "10.0.0.99", None, None, None, "Use the BFG!"],
        ),
        (
            "<13>2026-01-02T03:04:05.678901+01:00 host app: two\nlines",
            [1, 5, utc(2026, 1, 2, 2, 4, 5, 678901), "host", "app", None, None, "two\nlines"],
        ),
    ],
)  # fmt: skip
def test_lines_of_syslog(line: str, expected: list[Any]) -> None:
    rows, bad = read("syslog", [line], SYSLOG, year="2026")
    assert not bad
    assert rows == [dict(zip(SYSLOG, expected, strict=True))]


def test_structured_data_in_each_form() -> None:
    line = '<165>1 2003-10-11T22:14:15.003Z h a p m [x@1 iut="3" src="a\\"b\\]\\\\"][prio@1 class="high"] text'
    nested = map_of(STRING, map_of(STRING, STRING))
    rows, bad = read("syslog", [line, "<1>1 - h a p m - x"], {"structured_data": nested})
    assert not bad
    assert rows[0]["structured_data"] == [
        ("x@1", [("iut", "3"), ("src", 'a"b]\\')]),
        ("prio@1", [("class", "high")]),
    ]
    assert rows[1]["structured_data"] is None
    rows, _ = read("syslog", [line], {"structured_data": TEXTS, "facility_name": STRING, "severity_name": STRING})  # fmt: skip
    assert rows[0] == {
        "structured_data": [("x@1.iut", "3"), ("x@1.src", 'a"b]\\'), ("prio@1.class", "high")],
        "facility_name": "local4",
        "severity_name": "notice",
    }
    rows, _ = read("syslog", [line], {"structured_data": STRING})
    assert rows[0]["structured_data"].startswith("[x@1 ")


def test_lines_of_both_rfcs_keep_their_order() -> None:
    lines = ["<13>1 - h a - - - new", "<13>Oct  1 00:00:00 h a: old", "nothing", "<999>1 - h - - - - x", "<13>1 - i - - - - new"]  # fmt: skip
    rows, bad = read("syslog", list(lines), {"message": STRING, "host": STRING}, year="2000")
    assert [r["message"] for r in rows] == ["new", "old", "new"]
    assert bad == {2: "it is no line of RFC 5424 or RFC 3164", 3: "its priority is above 191"}
    assert read("syslog", ["nothing"], {"message": STRING}, ignore_parse_errors="true") == ([], {})


def test_a_time_without_a_year_is_near() -> None:
    now = dt.datetime.now(dt.UTC)
    told = now - dt.timedelta(days=20)
    line = f"<13>{told:%b} {told.day:2} {told:%H:%M:%S} h a: x"
    rows, bad = read("syslog", [line], {"timestamp": timestamp_ltz(3)})
    assert not bad
    assert abs(rows[0]["timestamp"] - told) < dt.timedelta(seconds=1)
    line = "<13>Oct 11 22:14:15 h a: x"
    rows, _ = read("syslog", [line], {"timestamp": timestamp(3)}, year="2024", time_zone="Europe/Berlin")  # fmt: skip
    assert rows[0]["timestamp"] == dt.datetime(2024, 10, 11, 20, 14, 15)


CEF = "CEF:0|Security|threatmanager|1.0|100|worm \\| stopped|10|src=10.0.0.1 msg=a \\= b\\nc  cs1Label=x y spt=1232"


def test_events_of_cef() -> None:
    columns = {"device_vendor": STRING, "name": STRING, "severity": INT, "src": STRING, "spt": INT, "extension": TEXTS}  # fmt: skip
    around = f"<134>Sep 19 08:26:10 fw1 {CEF}"
    rows, bad = read("cef", [CEF, around, "CEF:0|a|b", "x"], {**columns, "syslog_host": STRING})
    expected = {
        "device_vendor": "Security", "name": "worm | stopped", "severity": 10, "src": "10.0.0.1", "spt": 1232,
        "extension": [("msg", "a = b\nc"), ("cs1Label", "x y"), ("version", "0"), ("device_product", "threatmanager"),
                      ("device_version", "1.0"), ("signature_id", "100")],
    }  # fmt: skip
    of_syslog = [p for p in rows[1]["extension"] if p[0].startswith("syslog_")]
    assert [p[0] for p in of_syslog] == ["syslog_timestamp", "syslog_facility", "syslog_severity"]
    rows[1]["extension"] = [p for p in rows[1]["extension"] if p not in of_syslog]
    assert rows == [{**expected, "syslog_host": None}, {**expected, "syslog_host": "fw1"}]
    assert bad == {
        2: "CEF has seven fields before its extension, and this one 3",
        3: "there is no 'CEF:' in it",
    }


@pytest.mark.parametrize(
    "line",
    [
        "LEEF:1.0|Microsoft|MSExchange|4.0 SP1|15345|src=10.50.1.1\tusrName=joe smith\tx=a=b\n",
        "LEEF:2.0|Microsoft|MSExchange|4.0 SP1|15345|^|src=10.50.1.1^usrName=joe smith^x=a=b",
        "LEEF:2.0|Microsoft|MSExchange|4.0 SP1|15345|0x5E|src=10.50.1.1^usrName=joe smith^x=a=b",
        "LEEF:2.0|Microsoft|MSExchange|4.0 SP1|15345|src=10.50.1.1\tusrName=joe smith\tx=a=b",
        "<13>1 - h a - - - LEEF:2.0|Microsoft|MSExchange|4.0 SP1|15345||src=10.50.1.1\tusrName=joe smith\tx=a=b",
    ],
)
def test_events_of_leef(line: str) -> None:
    columns = {"vendor": STRING, "event_id": INT, "src": STRING, "usrName": STRING, "x": STRING}
    rows, bad = read("leef", [line], columns)
    assert not bad
    assert rows == [{"vendor": "Microsoft", "event_id": 15345, "src": "10.50.1.1", "usrName": "joe smith", "x": "a=b"}]  # fmt: skip


def test_pairs_of_lines() -> None:
    columns = {"user": STRING, "took": DOUBLE, "fields": TEXTS}
    lines = ['user=ann action="log in" took=1.5', "user=bob took=x", "nothing", "took=2"]
    rows, bad = read("key-value", list(lines), columns)
    assert rows == [
        {"user": "ann", "took": 1.5, "fields": [("action", "log in")]},
        {"user": None, "took": 2.0, "fields": []},
    ]
    assert bad == {1: "took: 'x' is not a DOUBLE", 2: "there is no pair in it"}
    lenient, bad = read("key-value", list(lines), columns, ignore_parse_errors="true")
    assert not bad
    assert [(r["user"], r["took"]) for r in lenient] == [("ann", 1.5), ("bob", None), (None, 2.0)]
    rows, _ = read("key-value", ["a:1;b:2"], {"b": INT, "more": TEXTS}, pair_delimiter=";", key_delimiter=":", rest_column="more")  # fmt: skip
    assert rows == [{"b": 2, "more": [("a", "1")]}]


PATTERN = r"%{IPORHOST:client} %{WORD:verb} %{URIPATH:path} %{INT:status:int} %{NUMBER:took:float}(?: %{QS:agent})?"


@pytest.mark.parametrize("odd", ["", "ä", "\x0b"])
def test_lines_that_a_pattern_takes_apart(odd: str) -> None:
    """The same by RE2 for whole columns and by Java's rules one by one."""
    lines = [f"10.0.0.1 GET /index.html 200 0.5{odd}", f"host POST /x 500 12 '{odd}'", "no"]
    columns = {"client": STRING, "status": INT, "took": DOUBLE, "agent": STRING, "fields": TEXTS}
    rows, bad = read("grok", list(lines), columns, pattern=PATTERN)
    agent = f"'{odd}'"
    assert rows == [
        {"client": "10.0.0.1", "status": 200, "took": 0.5, "agent": None, "fields": [("verb", "GET"), ("path", "/index.html")]},
        {"client": "host", "status": 500, "took": 12.0, "agent": agent, "fields": [("verb", "POST"), ("path", "/x")]},
    ]  # fmt: skip
    assert bad == {2: "the pattern does not match it"}


def test_a_pattern_without_names_has_no_fields() -> None:
    rows, bad = read("grok", [b"7", b"x"], {"fields": TEXTS}, pattern="^%{INT}$")
    assert (rows, list(bad)) == ([{"fields": []}], [1])


def test_patterns_beyond_re2() -> None:
    rows, bad = read("grok", ["ab", "aa"], {"x": STRING}, pattern=r"(?<x>a(?!a))")
    assert rows == [{"x": "a"}, {"x": "a"}]
    assert not bad
    for pattern in ("%{NOBODY:x}", "("):
        with pytest.raises(PlanError, match="bad value"):
            read("grok", ["a"], {"x": STRING}, pattern=pattern)
    with pytest.raises(PlanError, match="needs the option 'pattern'"):
        read("grok", ["a"], {"x": STRING})


EVENT = """<?xml version="1.0"?>
<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>
<Provider Name='Microsoft-Windows-Security-Auditing' Guid='{54849625-5478-4994-a5ba-3e3b0328c30d}'/>
<EventID Qualifiers=''>4624</EventID><Version>2</Version><Level>0</Level><TimeCreated SystemTime='2026-01-02T03:04:05.1234567Z'/>
<EventRecordID>211</EventRecordID><Execution ProcessID='716' ThreadID='760'/><Channel>Security</Channel>
<Computer>WIN-GG82ULGC9GO</Computer><Security/></System>
<EventData><Data Name='TargetUserName'>ann &amp; bob</Data><Data Name='LogonType'>3</Data><Data>plain</Data></EventData></Event>"""
LAUGHS = """<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><Event><System><EventID>&b;</EventID></System></Event>"""


def test_events_of_windows() -> None:
    columns = {"event_id": INT, "time_created": timestamp_ltz(6), "computer": STRING, "process_id": BIGINT, "LogonType": INT,
               "event_data": TEXTS}  # fmt: skip
    lines = [
        EVENT, LAUGHS, "<Event>", "<Event><System/></Event>", "<a>" * 10_000, "",
        EVENT.replace("bob", '<!ENTITY x SYSTEM "file:///etc/passwd">'),
    ]  # fmt: skip
    rows, bad = read("windows-event-xml", list(lines), columns)
    (row,) = rows
    assert row["event_data"][:2] == [("TargetUserName", "ann & bob"), ("param3", "plain")]
    expected = {
        "event_id": 4624, "time_created": utc(2026, 1, 2, 3, 4, 5, 123456), "computer": "WIN-GG82ULGC9GO",
        "process_id": 716, "LogonType": 3,
    }  # fmt: skip
    assert {k: v for k, v in row.items() if k != "event_data"} == expected
    assert sorted(bad) == [1, 2, 3, 4, 5, 6]
    assert "document type" in bad[1]
    assert bad[3] == "it has no Event/System/EventID"
    assert "nested too deeply" in bad[4]


def entry(fields: dict[str, str | bytes]) -> bytes:
    out = b""
    for name, value in fields.items():
        if isinstance(value, str):
            out += f"{name}={value}\n".encode()
        else:
            out += name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
    return out


FIELDS: dict[str, str | bytes] = {
    "__REALTIME_TIMESTAMP": "1767323045678901",
    "_SYSTEMD_UNIT": "ssh.service",
    "PRIORITY": "6",
    "MESSAGE": b"two\n\nlines",
}


def test_entries_of_the_journal() -> None:
    columns = {"timestamp": LTZ, "systemd_unit": STRING, "priority": INT, "MESSAGE": STRING, "fields": TEXTS}  # fmt: skip
    texts = {k: v if isinstance(v, str) else v.decode() for k, v in FIELDS.items()}
    raw = {**texts, "MESSAGE": list(b"two\n\nlines"), "BIG": None, "_PID": "7"}
    lines: list[bytes | str] = [json.dumps(raw), entry({**FIELDS, "_PID": "7"}), "{", "x", b""]
    rows, bad = read("journald", lines, columns)
    expected = {
        "timestamp": utc(2026, 1, 2, 3, 4, 5, 678901), "systemd_unit": "ssh.service", "priority": 6,
        "MESSAGE": "two\n\nlines", "fields": [("__REALTIME_TIMESTAMP", "1767323045678901"), ("_PID", "7")],
    }  # fmt: skip
    assert rows == [expected, expected]
    assert sorted(bad) == [2, 3, 4]


_name = st.text("ABC_", min_size=1, max_size=4)
_line = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8)
_fields = st.dictionaries(_name, _line | st.binary(max_size=12), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.lists(_fields, max_size=5), st.booleans(), st.data())
def test_exported_entries_are_found_in_a_file(
    entries: list[dict[str, str | bytes]], complete: bool, data: st.DataObject
) -> None:
    whole = b"".join(entry(e) + b"\n" for e in entries)
    cut = data.draw(st.integers(0, len(whole)))
    framing = ExportFraming()
    framed = framing.split(whole[:cut], complete=False)
    rest = framing.split(whole[framed.size :], complete=complete)
    records = framed.records.to_pylist() + rest.records.to_pylist()
    assert [parse_export(r) for r in records] == [
        {k: v if isinstance(v, str) else v.decode("utf-8", "replace") for k, v in e.items()}
        for e in entries
    ]
    assert framed.size + rest.size == len(whole)


def test_a_field_of_the_journal_that_stands_very_often_is_read_once() -> None:
    times = 200_000
    start = clock.process_time()
    assert parse_export(b"A=b\n" * times + b"C=d\n") == {"A": "b\n" * (times - 1) + "b", "C": "d"}
    assert clock.process_time() - start < 5


_FORMATS = ("syslog", "cef", "leef", "key-value", "windows-event-xml", "journald")


@pytest.mark.parametrize("name", [*_FORMATS, "grok"])
@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=6))
def test_any_bytes_are_rows_or_letters(name: str, lines: list[bytes]) -> None:
    options = {"pattern": "%{WORD:w} %{INT:n}"} if name == "grok" else {}
    rows, bad = read(name, list(lines), {"message": STRING, "n": INT}, **options)
    assert len(rows) + len(bad) == len(lines)


HOSTILE = {
    "syslog": b"<1>1 - h a p m " + b"[" * 200_000,
    "cef": CEF.encode() + b" a" * 200_000,
    "leef": b"LEEF:1.0|a|b|c|d|" + b"=\t" * 200_000,
    "key-value": b'a="' * 50_000,
    "windows-event-xml": b"<Event>" + b"<a x='1'>" * 100_000,
    "journald": b"{" + b'"a":{' * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_take_no_longer_than_others(name: str) -> None:
    """Time in proportion to their length: this test would not end otherwise."""
    rows, bad = read(name, [HOSTILE[name]], {"message": STRING})
    assert len(rows) + len(bad) == 1


@pytest.mark.parametrize("name", _FORMATS)
def test_what_cannot_be_held_or_written(name: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot hold ARRAY<INT>, in column 'a'"):
        get_format(name).decoder(Schema.of(a=array(INT)), {})
    with pytest.raises(UnsupportedError, match="can be read, and not be written"):
        get_format(name).encoder(Schema.of(a=INT), {})


_value = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=10)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(_value, min_size=7, max_size=7), st.dictionaries(st.text("abcXYZ019", min_size=1, max_size=5), _value, max_size=4))  # fmt: skip
def test_escaped_events_are_read_as_they_were_meant(head: list[str], pairs: dict[str, str]) -> None:
    def escaped(text: str, sign: str) -> str:
        return text.replace("\\", "\\\\").replace(sign, "\\" + sign)

    fields = [escaped(h, "|") for h in head]
    extension = " ".join(f"{k}={escaped(v, '=')}" for k, v in pairs.items())
    found = parse_cef("CEF:" + "|".join([*fields, extension]))
    assert {k: found[k] for k in pairs if k not in ("name", "version")} == pairs
    assert [found["version"], found["device_vendor"], found["severity"]] == [head[0], head[1], head[6]]  # fmt: skip
    plain = {k: v.replace("|", "") or "x" for k, v in pairs.items()}
    attributes = "\t".join(f"{k}={v}" for k, v in plain.items())
    read_again = parse_leef(f"LEEF:1.0|v|p|1|e|{attributes}")
    assert {k: read_again[k] for k in plain} == plain
