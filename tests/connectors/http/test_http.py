"""Rows that hosts give: read as a whole page by page, looked up, and polled without loss or doubles."""

from __future__ import annotations

import os
import signal
import ssl
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from parser.errors import ExecutionError, PlanError
from sqlengine.connectors.http.client import HttpClient, NoAnswer
from sqlengine.connectors.http.polling import PollReceiver, Polls
from sqlengine.connectors.http.reading import BadAnswer, at_pointer, with_parameters
from sqlengine.connectors.receivers.base import Stream, Taken, Unreachable
from sqlengine.connectors.registry import capabilities_of, content_stamp, open_source
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from sqlengine.system.network_access import NetworkAccess
from tests.connectors.http.answers import JSON, told
from tests.connectors.tables import environment, table
from tests.hostile.certificates import MISSING, Authority
from tests.servers.webhook import Got, Receiver, Told, receiving
from tests.service.harness import Process, User, running
from tests.sql.golden import Collected
from tests.support import eventually


def options(host: Receiver, **given: str) -> dict[str, str]:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in given.items()}
    return {"connector": "http", "url": host.url + "/rows?a=1", "format": "json", **named}


def read(given: dict[str, str]) -> list[bytes]:
    source = open_source(table(given), environment())
    (shard,) = source.shards()
    found, at = list[bytes](), source.start(shard)
    while (chunk := source.read(shard, at, max_rows=2)) is not None:
        assert chunk.records is not None
        found += chunk.records.to_pylist()
        at = chunk.end
    assert at == source.end(shard)
    return found


# ---- read as a whole


@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize(
    "encrypted",
    [False, pytest.param(True, marks=pytest.mark.skipif(bool(MISSING), reason=str(MISSING)))],
)
def test_an_answer_that_drips_has_a_deadline(size: int, *, encrypted: bool, tmp_path: Path) -> None:
    """Its head, or its body: of many waits none is too long. The next request over a connection has
    all of its time again."""
    body = b"x" * size
    ours = theirs = ssl.create_default_context()
    if encrypted:
        authority = Authority(tmp_path)
        ours = ssl.create_default_context(cafile=authority.own.certificate)
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = authority.sign("host")
        theirs.load_cert_chain(pair.certificate, pair.key)
    with receiving(theirs if encrypted else None) as host:
        client = HttpClient(ours, NetworkAccess(), 1.0)
        host.tells += [Told(), Told(200, {}, body, after_s=0.6), Told(200, {}, body, pause_s=0.2)]
        for _ in range(2):
            assert client.send("GET", host.url, {}, None, 10_000).status == 200
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="no answer in time"):
            client.send("GET", host.url, {}, None, 10_000)
        assert time.monotonic() - began < 1.9
        host.tells.append(Told(200, {}, body, after_s=0.6))
        assert client.send("GET", host.url, {}, None, 10_000).body == body
        client.close()


@pytest.mark.parametrize(
    ("given", "answer", "found"),
    [
        ({}, told([{"id": 1}, {"id": 2}]), [b'{"id": 1}', b'{"id": 2}']),
        ({}, told({"id": 1}), [b'{"id": 1}']),
        ({}, Told(204), []),
        ({"response_rows": "/data/items"}, told({"data": {"items": [{"id": 1}]}}), [b'{"id": 1}']),
        ({"response_rows": "/data"}, told({"data": None}), []),
        ({"response_rows": "/data", "response_rows_optional": "true"}, told({"other": 1}), []),
        ({}, Told(200, {"Content-Type": "application/x-ndjson"}, b'{"id":1}\r\n\n{"id":2}'), [b'{"id":1}', b'{"id":2}']),
        ({"format": "csv"}, Told(200, {}, b"1,a\n2,b\n"), [b"1,a", b"2,b"]),
    ],
)  # fmt: skip
def test_rows_of_one_answer(
    host: Receiver, given: dict[str, str], answer: Told, found: list[bytes]
) -> None:
    host.tells.append(answer)
    assert read(options(host, **given)) == found


def test_pages_by_links_and_by_marks(host: Receiver) -> None:
    host.tells += [
        told([{"id": 1}], Link=f'<{host.url}/rows?p=0>; rel="prev", </rows?p=2>; rel="next"'),
        told([{"id": 2}], Link="<?p=3>; rel=next"),
        told([{"id": 3}], Link='</rows?p=1>; rel="first"'),
    ]
    assert len(read(options(host, pagination="link"))) == 3
    assert [g.path for g in host.got] == ["/rows?a=1", "/rows?p=2", "/rows?p=3"]
    host.got.clear()
    host.tells += [
        told({"rows": [{"id": 1}], "next": {"mark": "x y"}}),
        told({"rows": [{"id": 2}], "next": {"mark": 7}}),
        told({"rows": [], "next": {"mark": None}}),
    ]
    given = options(host, pagination="cursor", pagination_cursor="/next/mark",
                    pagination_parameter="after", response_rows="/rows")  # fmt: skip
    assert len(read(given)) == 2
    assert [parse_qs(urlsplit(g.path).query) for g in host.got] == [
        {"a": ["1"]},
        {"a": ["1"], "after": ["x y"]},
        {"a": ["1"], "after": ["7"]},
    ]


def test_a_host_that_is_busy_is_asked_again(host: Receiver) -> None:
    host.tells += [Told(503), Told(429, {"Retry-After": "0"}), told([{"id": 1}])]
    given = options(host, token="t", method="POST", body="{}") | {"header.X-A": "b"}
    assert read(given) == [b'{"id": 1}']
    assert {(g.method, g.body, g.headers["authorization"], g.headers["x-a"]) for g in host.got} == {
        ("POST", b"{}", "Bearer t", "b")
    }


@pytest.mark.parametrize(
    ("given", "answers", "words"),
    [
        ({}, [Told(404, body=b"gone")], "answers 404 gone"),
        ({}, [Told(301, {"Location": "http://elsewhere/"})], "answers 301"),
        ({}, [Told(200, JSON, b"[{")], r"answer of http://127.0.0.1:\d+ is no JSON"),
        ({"response_rows": "/data"}, [told({"error": "too many"})], "nothing at '/data'.*too many"),
        ({}, [Told(500)] * 3, "answers 500"),
        ({"response_max__bytes": "10 b"}, [told([{"id": 123456}])], "too much"),
        ({"pagination": "link", "pagination_max__pages": "2"}, [told([], Link="</n>; rel=next")] * 2, "more than 2 pages"),
        ({"pagination": "link"}, [told([], Link="<http://evil.example/>; rel=next")], "elsewhere"),
    ],
)  # fmt: skip
def test_what_a_host_should_not_answer(
    host: Receiver, given: dict[str, str], answers: list[Told], words: str
) -> None:
    host.tells += answers
    with pytest.raises(ExecutionError, match=words):
        read(options(host, **given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pagination": "cursor"}, "'pagination.cursor'"),
        ({"scan_cursor_pointer": "/id"}, "'scan.cursor.parameter'"),
        ({"scan_cursor_pointer": "id"}, "JSON pointer"),
        ({"body": "{}"}, "has no 'body'"),
        ({"username": "u"}, "by half"),
    ],
)
def test_mistakes_are_told(host: Receiver, given: dict[str, str], words: str) -> None:
    with pytest.raises(PlanError) as error:
        capabilities_of(table(options(host, **given)))
    assert words in f"{error.value} {error.value.detail}"


def test_hosts_that_are_not_allowed_are_not_asked(host: Receiver) -> None:
    with pytest.raises(ExecutionError, match="is refused"):
        open_source(
            table(options(host)), replace(environment(), network=NetworkAccess(("*.example",)))
        )
    assert host.got == []


def test_a_stamp_tells_whether_rows_have_changed(host: Receiver) -> None:
    host.tells += [told([], ETag='"v1"'), told([], Last_Modified="then"), told([])]
    stamps = [content_stamp(table(options(host)), environment()) for _ in range(3)]
    assert stamps == ['"v1"', "then", None]


def test_pointers_and_parameters() -> None:
    body = b'{"a": [{"b": 1.50}], "c~d": "x"}'
    assert at_pointer(body, "") == body
    assert at_pointer(body, "/a/0/b") == b"1.50"
    assert at_pointer(body, "/c~0d") == b'"x"'
    assert at_pointer(body, "/a/7") is at_pointer(body, "/a/b") is at_pointer(body, "/z") is None
    with pytest.raises(BadAnswer):
        at_pointer(b"[" * 100_000, "/0")
    assert (
        with_parameters("http://h/p?a=1&b=&c=3#f", {"c": "é&"}) == "http://h/p?a=1&b=&c=%C3%A9%26#f"
    )


# ---- scripts and look-ups

LOOKED_UP = """
CREATE TABLE names (id BIGINT, name STRING)
WITH ('connector' = 'http', 'url' = '{url}/names', 'response.rows' = '/names', 'format' = 'json', 'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.interval' = '100 ms');
CREATE TABLE events (id BIGINT, pt AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE seen (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""
JOIN = """INSERT INTO seen SELECT e.id, n.name FROM events AS e
  LEFT JOIN names FOR SYSTEM_TIME AS OF e.pt AS n ON e.id = n.id"""


def test_a_script_reads_it(host: Receiver, tmp_path: Path) -> None:
    host.reply = lambda got: told([{"id": 2, "name": "b"}, {"id": 1, "name": "a"}])
    text = f"""CREATE TABLE t (id BIGINT, name STRING)
      WITH ('connector' = 'http', 'url' = '{host.url}', 'format' = 'json');
      SELECT id, name FROM t WHERE id > 1;"""
    collected = Collected(text)
    with open_runner(tmp_path) as runner:
        assert Session(runner, collected).run(text), collected.messages


def test_rows_are_looked_up_and_reloaded_when_they_change(host: Receiver, tmp_path: Path) -> None:
    names = {"n": "old"}

    def reply(got: Got) -> Told:
        return told({"names": [{"id": 1, "name": names["n"]}]}, ETag=f'"{names["n"]}"')

    host.reply = reply
    with running(tmp_path / "data") as (_, user):
        for topic in ("events", "seen"):
            user.topic(topic)
        user.submit("tables", LOOKED_UP.format(url=host.url))
        user.submit("join", JOIN)
        user.write("events", {"id": 1}, {"id": 2})
        eventually(lambda: len(user.read("seen")) == 2)
        assert user.read("seen") == [{"id": 1, "name": "old"}, {"id": 2, "name": None}]
        names["n"] = "new"

        def looked_up() -> bool:
            user.write("events", {"id": 1})
            return user.read("seen")[-1]["name"] == "new"

        eventually(looked_up)


# ---- polled


def polled(
    host: Receiver, *kept: bytes, cursor: str | None = "/id", interval: float = 5
) -> tuple[PollReceiver, list[float]]:
    from sqlengine.connectors.http.connector import _reader
    from sqlengine.connectors.registry import options_of

    one = table(options(host))
    receiver = PollReceiver(
        lambda: _reader(one, options_of(one), environment()), Polls(interval, cursor, "after", "0")
    )
    now = [100.0]
    receiver.now = lambda: now[0]
    receiver.connect(
        [Stream("p", {}, 1, 1, 1, 0)], [], lambda topic, count: Taken(list(kept), [b""] * len(kept))
    )
    return receiver, now


def taken(receiver: PollReceiver) -> list[bytes]:
    return [value for batch in receiver.take(0).values() for value in batch.values]


def asked(host: Receiver) -> list[str]:
    return [parse_qs(urlsplit(g.path).query)["after"][0] for g in host.got]


def test_a_cursor_asks_for_what_follows(host: Receiver) -> None:
    host.tells += [told([{"id": 1}, {"id": 3}]), told([]), told([{"id": 9}])]
    receiver, now = polled(host)
    assert taken(receiver) == [b'{"id": 1}', b'{"id": 3}']
    receiver.acknowledge()
    assert taken(receiver) == []  # not yet
    for rows in ([], [b'{"id": 9}']):
        now[0] += 5
        assert taken(receiver) == rows
        receiver.acknowledge()
    assert asked(host) == ["0", "3", "3"]


def test_what_did_not_get_into_the_log_is_asked_for_again(host: Receiver) -> None:
    host.tells += [told([{"id": 8}])]
    receiver, _ = polled(host, b'{"id": 7}', b"nonsense")
    assert taken(receiver) == [b'{"id": 8}']
    assert asked(host) == ["7"]
    again, _ = polled(host, b'{"id": 7}')  # a kill came before the append
    host.tells += [told([{"id": 8}])]
    taken(again)
    assert asked(host) == ["7", "7"]


def test_without_a_cursor_rows_come_when_they_have_changed(host: Receiver) -> None:
    host.tells += [told([{"id": 1}], ETag='"a"'), Told(304), told([{"id": 2}], ETag='"b"')]
    receiver, now = polled(host, cursor=None)
    found = []
    for _ in range(3):
        found += taken(receiver)
        receiver.acknowledge()
        now[0] += 5
    assert found == [b'{"id": 1}', b'{"id": 2}']
    assert [g.headers.get("if-none-match") for g in host.got] == [None, '"a"', '"a"']


def test_a_host_that_fails_is_told(host: Receiver) -> None:
    host.tells += [Told(404, body=b"no")]
    receiver, _ = polled(host)
    with pytest.raises(Unreachable, match="answers 404 no"):
        receiver.take(0)


def test_rows_without_the_value_of_the_cursor_are_not_taken_again_and_again(host: Receiver) -> None:
    host.tells += [
        told([{"ident": 1}, {"ident": 3}]),
        told([{"ident": 1}, {"id": 4}, {"ident": 3}]),
    ]
    receiver, now = polled(host)
    with pytest.raises(Unreachable, match=r"no row has a value at '/id'.*ident"):
        receiver.take(0)
    now[0] += 5
    assert len(taken(receiver)) == 3
    receiver.acknowledge()
    now[0] += 5
    taken(receiver)
    assert asked(host) == ["0", "0", "4"]


POLLED_TABLES = """
CREATE TABLE {name} (asked STRING) WITH ('connector' = 'http', 'url' = '{url}/rows', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', {options});
CREATE TABLE seen_{name} (asked STRING) WITH ('connector' = 'topic', 'topic' = 'seen_{name}', 'format' = 'json');
INSERT INTO seen_{name} SELECT DISTINCT asked FROM {name};
"""
EVERY = "'scan.poll-interval' = '50 ms'"
CURSOR = (
    "'scan.cursor.pointer' = '/{}', 'scan.cursor.parameter' = 'after', 'scan.cursor.initial' = '{}'"
)


def test_tables_for_which_a_host_is_asked_differently_share_no_rows(
    host: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the difference is a secret, plain or by its name."""
    monkeypatch.setenv("SQLENGINE_SECRET_ONE", "the-first-secret")
    monkeypatch.setenv("SQLENGINE_SECRET_TWO", "the-second-secret")

    def reply(got: Got) -> Told:
        who = got.headers.get("authorization", "") + got.headers.get("x-of", "")
        return told([{"asked": f"{who} {got.path}", "at": 7}])

    host.reply = reply
    tables = {
        "plain": EVERY,
        "header": f"{EVERY}, 'header.X-Of' = 'h'",
        "token": f"{EVERY}, 'token' = 'plainly'",
        "another": f"{EVERY}, 'token' = 'otherwise'",
        "named": f"{EVERY}, 'token' = '${{secret:ONE}}'",
        "renamed": f"{EVERY}, 'token' = '${{secret:TWO}}'",
        "suffix": f"{EVERY}, 'url.suffix' = '?k=1'",
        "account": f"{EVERY}, 'username' = 'u', 'password' = 'p'",
        "followed": f"{EVERY}, {CURSOR.format('at', 7)}",
        "later": f"{EVERY}, {CURSOR.format('at', 8)}",
    }
    with running(tmp_path / "data") as (_, user):
        for name, given in tables.items():
            user.topic(f"seen_{name}")
            user.submit(name, POLLED_TABLES.format(name=name, url=host.url, options=given))
        found = {n: eventually(lambda: user.read(f"seen_{n}")) for n in tables}  # noqa: B023
    rows = {name: {row["asked"] for row in seen} for name, seen in found.items()}
    assert rows == {
        "plain": {" /rows"},
        "header": {"h /rows"},
        "token": {"Bearer plainly /rows"},
        "another": {"Bearer otherwise /rows"},
        "named": {"Bearer the-first-secret /rows"},
        "renamed": {"Bearer the-second-secret /rows"},
        "suffix": {" /rows?k=1"},
        "account": {"Basic dTpw /rows"},
        "followed": {" /rows?after=7"},
        "later": rows["later"],
    }
    assert rows["later"] <= {" /rows?after=8", " /rows?after=7"}


POLLED = """
CREATE TABLE polled (id BIGINT) WITH ('connector' = 'http', 'url' = '{url}/rows', 'format' = 'json',
  'scan.poll-interval' = '20 ms', 'scan.cursor.pointer' = '/id', 'scan.cursor.parameter' = 'after', 'scan.cursor.initial' = '-1');
CREATE TABLE seen (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""


def life(host: Receiver, data: Path, kills: int) -> None:
    """A host has more and more rows, and gives three at a time; the server is killed."""
    there = [0]

    def reply(got: Got) -> Told:
        after = int(parse_qs(urlsplit(got.path).query)["after"][0])
        return told([{"id": i} for i in range(after + 1, min(after + 4, there[0]))])

    host.reply = reply
    for turn in range(kills + 1):
        with Process(data) as process:
            user: User = process.user()
            if not turn:
                user.topic("seen")
                user.submit("tables", POLLED.format(url=host.url))
                user.submit("copy", "INSERT INTO seen SELECT id FROM polled")
            there[0] += 20
            want = there[0] - (0 if turn == kills else 7 + turn % 5)
            eventually(lambda: len(user.read("seen")) >= want)  # noqa: B023
            if turn < kills:
                process.end(signal.SIGKILL)
                continue
            assert [r["id"] for r in user.read("seen")] == list(range(there[0]))


def test_polled_rows_are_there_once_after_kills(host: Receiver, tmp_path: Path) -> None:
    life(host, tmp_path / "data", 1)


@pytest.mark.slow
def test_polled_rows_are_there_once_after_many_kills(host: Receiver, tmp_path: Path) -> None:
    life(host, tmp_path / "data", int(os.environ.get("SQLENGINE_KILLS", "50")))


@pytest.mark.parametrize("form", ["array", "object", "lines"])
def test_an_answer_of_many_tiny_rows_is_refused_before_they_are_made(
    host: Receiver, form: str
) -> None:
    """It has less than 'response.max-bytes', and its rows would take a hundred times as much."""
    many = 4_000_000
    kind = {"Content-Type": "application/x-ndjson"} if form == "lines" else JSON
    body = {
        "array": b"[" + b"1," * many + b"1]",
        "object": b'{"a":{' + b",".join(b'"%d":1' % n for n in range(many)) + b"}}",
        "lines": b"1\n" * many,
    }[form]
    host.tells += [Told(200, kind, body)]
    rows = {"response_rows": "/a/b"} if form == "object" else {}
    tracemalloc.start()
    try:
        with pytest.raises(ExecutionError, match=r"has 4,000,00\d rows, and 2,000,000 are taken"):
            read(options(host, **rows))
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body) + (40 << 20)
    finally:
        tracemalloc.stop()
