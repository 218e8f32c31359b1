"""Rows that clients push: whatever was answered with 200 is read once, and nothing is lost or doubled
by kills."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import resource
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parser.types import BIGINT, STRING, Schema, array, map_of, row
from sqlengine.connectors.pushed.bodies import BadBody, Bodies, UnsupportedBody
from sqlengine.connectors.pushed.inbox import Inbox, NotTaken, Push
from sqlengine.connectors.pushed.metadata import Metadata, encode_metadata
from sqlengine.connectors.receivers.base import Stream, Taken
from tests.connectors.tables import table
from tests.service.harness import Process, User, running
from tests.support import eventually

PUSHED = """
CREATE TABLE pushed (id BIGINT, name STRING, peer STRING METADATA VIRTUAL)
WITH ('connector' = 'http-push', 'format' = 'json');
CREATE TABLE seen (id BIGINT, name STRING, peer STRING)
WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""
COPY = "INSERT INTO seen SELECT id, name, peer FROM pushed"
JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
ARROW = "application/vnd.apache.arrow.stream"


def post(
    port: int, body: bytes, kind: str = LINES, name: str = "pushed", **headers: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The status, body and headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(
            "POST", f"/api/v1/tables/{name}/rows", body, {"Content-Type": kind, **named}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}"), dict(answer.headers)
    finally:
        connection.close()


def prepare(user: User) -> None:
    user.topic("seen")
    user.submit("tables", PUSHED)
    user.submit("copy", COPY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, User]]:
    with running(tmp_path_factory.mktemp("pushed") / "data") as (service, user):
        prepare(user)
        yield service.port, user


def arrow(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table(columns)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=2)
    return sink.getvalue().to_pybytes()


def test_every_kind_of_body_brings_the_same_rows(server: tuple[int, User]) -> None:
    port, user = server
    before = len(user.read("seen"))
    lines = b'{"id": 1, "name": "a"}\r\n\n{"id": 2, "name": null}\n'
    coded = pa.array(["a", None]).dictionary_encode()
    bodies = [
        (lines, LINES, {}),
        (b'[{"id": 1, "name": "a"}, {"id": 2}]', JSON, {}),
        (b"id,name\n1,a\n2,\n", CSV, {}),
        (arrow(id=pa.array([1, 2], pa.int32()), name=coded), ARROW, {}),
        (gzip.compress(lines), LINES, {"Content_Encoding": "gzip"}),
        (pa.compress(lines, "zstd", asbytes=True), LINES, {"Content_Encoding": "zstd"}),
    ]
    for body, kind, headers in bodies:
        status, answer, _ = post(port, body, kind, **headers)
        assert (status, answer) == (200, {"rows": 2, "repeated": False}), kind
    eventually(lambda: len(user.read("seen")) == before + 2 * len(bodies))
    rows = [(r["id"], r["name"], r["peer"]) for r in user.read("seen")[before:]]
    assert rows == [(1, "a", "127.0.0.1"), (2, None, "127.0.0.1")] * len(bodies)


@pytest.mark.parametrize(
    ("body", "kind", "name", "headers", "status"),
    [
        (b"[{", JSON, "pushed", {}, 400),
        (b"idd\n1", CSV, "pushed", {}, 400),
        (b"id,name\n1", CSV, "pushed", {}, 400),
        (b"nonsense", ARROW, "pushed", {}, 400),
        (b"{}", "image/png", "pushed", {}, 415),
        (b"{}", LINES, "pushed", {"Content_Encoding": "br"}, 415),
        (b"{}", LINES, "pushed", {"Content_Encoding": "zstd"}, 400),
        (b"{}", LINES, "pushed", {"Idempotency_Key": "k" * 300}, 400),
        (b"{}", LINES, "nothing", {}, 404),
        (b"{}", LINES, "seen", {}, 404),
        (gzip.compress(bytes(70 << 20)), LINES, "pushed", {"Content_Encoding": "gzip"}, 413),
    ],
)
def test_what_is_refused_is_not_taken(
    server: tuple[int, User], body: bytes, kind: str, name: str, headers: Any, status: int
) -> None:
    port, user = server
    before = len(user.read("seen"))
    found, answer, _ = post(port, body, kind, name, **headers)
    assert found == status, answer
    post(port, b'{"id": 99}')
    eventually(lambda: len(user.read("seen")) > before)
    assert [r["id"] for r in user.read("seen")[before:]] == [99]


def few_bytes(column: pa.Array, compression: str | None, name: str = "name") -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.record_batch([column], [name])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def few_values(kind: str) -> tuple[pa.Array, Schema]:
    """A column of a few bytes whose values take gigabytes, and what the table has in its place."""
    value, texts = "x" * (1 << 20), coded("x" * (1 << 20), 5000)
    once = pa.array([0, 5000], pa.int32())
    many, one = pa.array([0] * 5000, pa.int32()), pa.array([value])
    match kind:
        case "list":
            return pa.ListArray.from_arrays(once, texts), Schema.of(v=array(STRING))
        case "fixed list":
            return pa.FixedSizeListArray.from_arrays(texts, 5000), Schema.of(v=array(STRING))
        case "row":
            return pa.StructArray.from_arrays([texts], ["f"]), Schema.of(v=row(("f",), (STRING,)))
        case "map":
            keys = pa.array([str(i) for i in range(5000)])
            column = pa.MapArray.from_arrays(once, keys, texts)
            return column, Schema.of(v=map_of(STRING, STRING))
        case "nothing in a list":
            nothing = pa.ListArray.from_arrays(
                pa.array([0, 2**31 - 1], pa.int32()), pa.nulls(2**31 - 1)
            )
            return nothing, Schema.of(v=array(STRING))
        case "views":
            view = struct.pack("<i4sii", len(value), value[:4].encode(), 0, 0)
            parts = [None, pa.py_buffer(view * 5000), pa.py_buffer(value.encode())]
            return pa.Array.from_buffers(pa.string_view(), 5000, parts), Schema.of(v=STRING)
        case _:
            codes = pa.array([0] * 5000, pa.int8())
            return pa.UnionArray.from_dense(codes, many, [one]), Schema.of(v=STRING)


@pytest.mark.parametrize(
    "kind", ["list", "fixed list", "row", "map", "nothing in a list", "views", "union"]
)
def test_few_values_that_are_many_are_refused(kind: str) -> None:
    column, schema = few_values(kind)
    column.validate(full=True)
    bodies = Bodies(table({"connector": "http-push", "format": "json"}, schema))
    before = peak()
    with pytest.raises(BadBody, match="too many rows"):
        bodies.records(few_bytes(column, None, "v"), ARROW)
    assert peak() - before < 100 << 20


def coded(value: str, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int8()), pa.array([value]))


def peak() -> int:
    """The most bytes that this process, in which the server runs, had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


MANY_ROWS = {
    "nothing, two billion times": (few_bytes(pa.nulls(2_000_000_000), None), ARROW),
    "a megabyte, five thousand times": (few_bytes(coded("x" * (1 << 20), 5000), "zstd"), ARROW),
    "zeros that are packed": (few_bytes(pa.array(["\0" * (100 << 20)]), "zstd"), ARROW),
    "lines": (b"1\n" * 2_100_000, LINES),
    "elements": (b"[" + b"1," * 2_100_000 + b"1]", JSON),
    "so many elements that none is made": (b"[" + b"1," * 9_000_000 + b"1]", JSON),
    "eight million elements": (b"[" + b"1," * 7_999_999 + b"1]", JSON),
    "elements of nothing": (b"[" + b"," * 8_000_000 + b"]", JSON),
    "texts": (b"[" + b'"",' * 7_000_000 + b"1]", JSON),
    "rows of CSV": (b"id\n" + b"1\n" * 2_100_000, CSV),
}


@pytest.mark.parametrize("name", MANY_ROWS)
def test_few_bytes_that_are_many_rows_are_refused(server: tuple[int, User], name: str) -> None:
    body, kind = MANY_ROWS[name]
    before = peak()
    status, answer, _ = post(server[0], body, kind)
    assert (status, answer["message"]) == (400, "the body has too many rows")
    assert "send fewer" in answer["hint"]
    assert peak() - before < 700 << 20


def test_one_value_in_json_is_not_made() -> None:
    before = peak()
    body = b'{"id": 7, "other": [' + b"{}," * 9_000_000 + b"{}]}"
    assert Bodies(table({"connector": "http-push", "format": "json"})).records(body, JSON) == [body]
    assert peak() - before < 300 << 20


@pytest.mark.parametrize("body", [b"id\n" + b"," * 50_000_000, b"," * 50_000_000])
def test_a_row_of_csv_has_a_bound(body: bytes) -> None:
    before = peak()
    bodies = Bodies(table({"connector": "http-push", "format": "json"}, Schema.of(id=BIGINT)))
    with pytest.raises(BadBody, match=r"row \d has more than 1,000,000 commas"):
        bodies.records(body, CSV)
    assert peak() - before < 300 << 20


def test_names_of_columns_of_csv_count_for_each_row() -> None:
    name = "n" * 200
    bodies = Bodies(
        table({"connector": "http-push", "format": "json"}, Schema.of(**{name: STRING}))
    )
    with pytest.raises(BadBody, match="too many rows"):
        bodies.records(name.encode() + b"\n" + b"1\n" * 1_000_000, CSV)


def test_an_array_of_rows_with_many_columns_is_taken() -> None:
    bodies = Bodies(table({"connector": "http-push", "format": "json"}))
    one = b'{"a":1,"b":2,"c":[1,2,3],"d":","}'
    body = b"[" + b",".join([one] * 400_000) + b"]"
    assert len(bodies.records(body, JSON)) == 400_000


def test_records_that_the_table_cannot_read_are_dead_letters(server: tuple[int, User]) -> None:
    port, user = server
    before, letters = len(user.read("seen")), len(user.letters())
    assert post(port, b'{"id": "x"}\nnonsense\n{"id": 5}')[1]["rows"] == 3
    eventually(lambda: len(user.letters()) == letters + 2)
    eventually(lambda: [r["id"] for r in user.read("seen")[before:]] == [5])


def test_a_key_is_taken_once(server: tuple[int, User]) -> None:
    port, user = server
    before = len(user.read("seen"))
    answers = [
        post(port, b'{"id": 7}\n{"id": 8}', Idempotency_Key=key)[1] for key in ("a", "a", "b")
    ]
    assert answers == [
        {"rows": 2, "repeated": False},
        {"rows": 0, "repeated": True},
        {"rows": 2, "repeated": False},
    ]
    eventually(lambda: [r["id"] for r in user.read("seen")[before:]] == [7, 8, 7, 8])


def test_nobody_takes_rows_for_a_table_that_no_job_reads(tmp_path: Path) -> None:
    with running(tmp_path / "data") as (service, user):
        user.topic("seen")
        user.submit("tables", PUSHED)
        status, answer, headers = post(service.port, b'{"id": 1}')
        assert (status, headers["Retry-After"]) == (503, "1"), answer
        user.submit("copy", COPY)
        assert post(service.port, b'{"id": 2}')[0] == 200
        user.client.post("/api/v1/jobs/copy/stop", {})
        eventually(lambda: post(service.port, b"")[0] == 503)
        user.client.post("/api/v1/jobs/copy/start", {})
        eventually(lambda: post(service.port, b'{"id": 3}')[0] == 200)
        eventually(lambda: [r["id"] for r in user.read("seen")] == [2, 3])


# ---- the inbox


def opened(*kept: bytes) -> Inbox:
    inbox, stream = Inbox(), Stream("p", {}, 1, 1, 1, 0)
    inbox.connect([stream], [], lambda topic, count: Taken([b""] * len(kept), list(kept)))
    return inbox


def test_an_inbox_has_a_bound_and_refuses_while_nothing_can_be_written() -> None:
    inbox = opened()
    big = [bytes(40 << 20)]
    first = inbox.offer(Push(big, [b""]))
    with pytest.raises(NotTaken, match="not taken now") as error:
        inbox.offer(Push(big, [b""]))
    assert "too many" in str(error.value.detail)
    (taken,) = inbox.take(0).values()
    assert len(taken.values) == 1
    inbox.rest()
    with pytest.raises(NotTaken):
        inbox.offer(Push([b"x"], [b""]))
    inbox.acknowledge()
    first.wait(0)
    assert not inbox.take(0)
    lost = inbox.offer(Push([b"x"], [b""], "k"))
    inbox.take(0)
    inbox.close()
    with pytest.raises(NotTaken, match="rows are not taken"):
        lost.wait(0)


def test_keys_are_known_after_a_restart_and_while_they_are_on_their_way() -> None:
    inbox = opened(encode_metadata(Metadata("1.2.3.4", None, "old")))
    assert inbox.offer(Push([b"x"], [b""], "old")).repeated
    first = inbox.offer(Push([b"x"], [b""], "new"))
    second = inbox.offer(Push([b"x"], [b""], "new"))
    assert (first.repeated, second.repeated) == (False, True)
    with pytest.raises(NotTaken, match="not safe yet"):
        second.wait(0)
    assert sum(len(t.values) for t in inbox.take(0).values()) == 1
    inbox.acknowledge()
    second.wait(0)
    inbox.offer(Push([b"x"], [b""], "new")).wait(0)


def test_a_repeated_push_fails_as_the_first_one_does() -> None:
    inbox = opened()
    pushes = [inbox.offer(Push([b"x"], [b""], "k")) for _ in range(2)]
    inbox.take(0)
    pushes.append(inbox.offer(Push([b"x"], [b""], "k")))
    inbox.close()
    for push in pushes:
        with pytest.raises(NotTaken, match="rows are not taken"):
            push.wait(0)
    inbox.connect([Stream("p", {}, 1, 1, 1, 0)], [], lambda topic, count: Taken())
    assert not inbox.offer(Push([b"x"], [b""], "k")).repeated


@pytest.mark.parametrize(
    ("given", "kind", "body", "found"),
    [
        ("csv", CSV, b"1,a\n2,b\n", [b"1,a", b"2,b"]),
        ("raw", "text/plain", b"a\nb", [b"a", b"b"]),
        ("debezium-json", JSON, b'[{"op": "c"}]', [b'{"op": "c"}']),
        ("json", JSON, b' {"id": 1} ', [b'{"id": 1}']),
        ("json", JSON, b"[]", []),
    ],
)
def test_bodies_of_other_formats(given: str, kind: str, body: bytes, found: list[bytes]) -> None:
    bodies = Bodies(table({"connector": "http-push", "format": given}))
    assert bodies.records(body, kind + "; charset=utf-8") == found


def test_an_arrow_stream_is_of_the_table() -> None:
    bodies = Bodies(
        table({"connector": "http-push", "format": "json"}, Schema.of(id=BIGINT, s=STRING))
    )
    with pytest.raises(BadBody, match="no column 'other'"):
        bodies.records(arrow(other=pa.array([1])), ARROW)
    with pytest.raises(BadBody, match="no Arrow stream"):
        bodies.records(arrow(id=pa.array(["x"])), ARROW)
    with pytest.raises(BadBody, match="no Arrow stream"):
        bodies.records(arrow(id=pa.array([1, 2]))[:-40], ARROW)
    csv = Bodies(table({"connector": "http-push", "format": "csv"}))
    with pytest.raises(UnsupportedBody):
        csv.records(b"", ARROW)


# ---- kills


def life(folder: Path, kills: int) -> None:
    """A client pushes until it is answered, while the server is killed."""
    data, answered = folder / "data", list[int]()
    port, stop = [0], threading.Event()

    def push() -> None:
        number = 0
        while not stop.is_set():
            body = "\n".join(json.dumps({"id": number * 10 + i}) for i in range(10)).encode()
            try:
                status, _, _ = post(port[0], body, Idempotency_Key=f"r{number}")
            except (OSError, http.client.HTTPException, ValueError):
                status = 0
            if status == 200:
                answered.append(number)
                number += 1
            else:
                stop.wait(0.05)

    client = threading.Thread(target=push)
    for turn in range(kills + 1):
        with Process(data) as process:
            user = process.user()
            port[0] = int(user.client.server.rsplit(":", 1)[1])
            if not turn:
                prepare(user)
                client.start()
            want = len(answered) + 3 + turn % 5
            eventually(lambda: len(answered) >= want)  # noqa: B023
            if turn < kills:
                process.end(signal.SIGKILL)
                continue
            stop.set()
            client.join()
            eventually(lambda: len(user.read("seen")) >= 10 * len(answered))  # noqa: B023
            assert [r["id"] for r in user.read("seen")] == list(range(10 * len(answered)))


def test_rows_that_were_answered_are_there_once_after_kills(tmp_path: Path) -> None:
    life(tmp_path, 1)


@pytest.mark.slow
def test_rows_that_were_answered_are_there_once_after_many_kills(tmp_path: Path) -> None:
    life(tmp_path, int(os.environ.get("SQLENGINE_KILLS", "50")))
