"""The requests that a webhook gets: bodies, headers, keys, signatures, and answers that refuse."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from parser.errors import ExecutionError, OptionError, PlanError, SqlError
from parser.types import BIGINT, DOUBLE, STRING, Schema, decimal, timestamp
from parser.types import array as array_type
from sqlengine.batch import Batch, from_pydict
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.registry import capabilities_of, open_sink, rejects, validate
from sqlengine.connectors.retry_after import retry_after
from sqlengine.connectors.webhook.connector import WebhookConnector
from sqlengine.connectors.webhook.sink import WebhookSink
from sqlengine.system.back_off import BackOff
from sqlengine.system.network_access import NetworkAccess
from tests.connectors.tables import SCHEMA, Clock, environment, table
from tests.servers.webhook import Receiver, Told, receiving


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def hook(server: Receiver) -> Receiver:
    server.got.clear()
    server.tells.clear()
    return server


def options(hook: Receiver, **given: str) -> dict[str, str]:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in given.items()}
    return {"connector": "webhook", "url": hook.url + "/in", "format": "json", **named}


def rows(*found: tuple[int | None, str | None]) -> Batch:
    return from_pydict(SCHEMA, {"id": [i for i, _ in found], "name": [n for _, n in found]})


def opened(given: dict[str, str], schema: Schema = SCHEMA, **env: Any) -> Sink:
    return open_sink(table(given, schema), environment(**env))


def sent(given: dict[str, str], *found: tuple[int | None, str | None], epoch: int = 1) -> Sink:
    target = opened(given)
    target.write(rows(*found))
    target.commit(epoch)
    return target


def timed(given: dict[str, str]) -> tuple[WebhookSink, list[float]]:
    """A sink, and its time in s, which a test moves."""
    target, now = WebhookConnector().sink(table(given), environment()), [100.0]
    assert isinstance(target, WebhookSink)
    target.now = lambda: now[0]
    return target, now


# ---- bodies


def test_a_row_is_a_request_and_an_epoch_keeps_its_keys(hook: Receiver) -> None:
    given = options(hook)
    for epoch in (7, 7, 8):  # the second is what a crash repeats
        sent(given, (1, "a"), (2, None), epoch=epoch)
    assert [g.json for g in hook.got[:2]] == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert {g.headers["content-type"] for g in hook.got} == {"application/json"}
    keys = [g.headers["idempotency-key"] for g in hook.got]
    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 4
    other = opened(given, writer="another graph")
    other.write(rows((1, "a")))
    other.commit(7)
    assert hook.got[-1].headers["idempotency-key"] not in keys


@pytest.mark.parametrize(
    ("given", "bodies", "kind"),
    [
        ({"sink_batch_max__rows": "2"}, [b'[{"id":1,"name":"a"},{"id":2,"name":"b"}]', b'[{"id":3,"name":"c"}]'], "application/json"),
        ({"sink_batch_max__rows": "9", "sink_batch_form": "lines"}, [b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n{"id":3,"name":"c"}\n'], "application/x-ndjson"),
        ({"sink_batch_max__rows": "9", "sink_batch_max__bytes": "40 b", "content__type": "text/x"}, [b'[{"id":1,"name":"a"},{"id":2,"name":"b"}]', b'[{"id":3,"name":"c"}]'], "text/x"),
        ({"sink_batch_max__rows": "9", "format": "csv"}, [b"1,a\n2,b\n3,c\n"], "text/csv"),
    ],
    ids=["array", "lines", "bytes", "csv"],
)  # fmt: skip
def test_batches(hook: Receiver, given: dict[str, str], bodies: list[bytes], kind: str) -> None:
    sent(options(hook, **given), (1, "a"), (2, "b"), (3, "c"))
    assert [g.body.replace(b'": ', b'":').replace(b", ", b",") for g in hook.got] == bodies
    assert {g.headers["content-type"] for g in hook.got} == {kind}


def test_all_types_go_as_the_format_writes_them(hook: Receiver) -> None:
    schema = Schema.of(
        price=decimal(10, 2), at=timestamp(3), x=DOUBLE, tags=array_type(STRING), text=STRING
    )
    values: dict[str, Sequence[object]] = {
        "price": [Decimal("1.50"), None], "at": [datetime(2026, 1, 2, 3, 4, 5), None], "x": [0.25, None],
        "tags": [["a", None], None], "text": ['é"\n', None],
    }  # fmt: skip
    target = opened(options(hook), schema)
    target.write(from_pydict(schema, values))
    assert target.commit(1) == 2
    assert hook.got[0].json == {
        "price": 1.5, "at": "2026-01-02 03:04:05", "x": 0.25, "tags": ["a", None], "text": 'é"\n'
    }  # fmt: skip
    assert set(hook.got[1].json.values()) == {None}


def test_a_record_of_ten_megabytes(hook: Receiver) -> None:
    big = "x" * (10 << 20)
    sent(options(hook, sink_batch_max__rows="10"), (1, "a"), (2, big), (3, "c"))
    assert [len(g.json) for g in hook.got] == [1, 1, 1]
    assert hook.got[1].json[0]["name"] == big


# ---- templates


def test_templates_escape_what_they_put_in(hook: Receiver) -> None:
    given = options(
        hook,
        body='{"text": "host {{name}}: {{ id }}", "raw": {{name}}, "n": {{id}}}',
        **{"header.X-Host": "h {{name}}"},
    )
    given["url"] = hook.url + "/{{name}}/x?n={{id}}"
    nasty = 'a/b "c" é?&{{id}}'
    sent(given, (1, nasty))
    (got,) = hook.got
    assert got.path == "/a%2Fb%20%22c%22%20%C3%A9%3F%26%7B%7Bid%7D%7D/x?n=1"
    assert got.json == {"text": f"host {nasty}: 1", "raw": nasty, "n": 1}
    assert got.headers["x-host"].encode("latin-1").decode() == f"h {nasty}"


def test_rows_for_other_addresses_are_other_requests(hook: Receiver) -> None:
    given = options(hook, sink_batch_max__rows="10") | {"url": hook.url + "/{{name}}"}
    sent(given, (1, "a"), (2, "a"), (3, "b"), (4, "a"))
    assert [(g.path, len(g.json)) for g in hook.got] == [("/a", 2), ("/b", 1), ("/a", 1)]


def test_null_in_a_body_is_null_and_in_an_address_no_row(hook: Receiver) -> None:
    given = options(hook, body='{"text": "<{{name}}>", "raw": {{name}}}')
    sent(given, (1, None))
    assert hook.got[0].json == {"text": "<>", "raw": None}
    addressed = table(options(hook) | {"header.X": "{{name}}"})
    found = rejects(addressed, rows((1, None), (2, "b"), (3, "a\r\nSet-Cookie: x"), (4, "")))
    assert {row: reason.split("'")[1] for row, reason in found.items()} == {
        0: "name",
        2: "name",
        3: "name",
    }
    assert "NULL" in found[0]
    assert "line break" in found[2]


@pytest.mark.parametrize("path", ["/{{name}}/in", "/rooms/{{name}}", "/a/.{{name}}?x={{name}}"])
def test_values_lead_to_no_other_path(hook: Receiver, path: str) -> None:
    """Clients and servers leave out '.' and what is before '..', however they are written."""
    of = table(options(hook) | {"url": hook.url + path})
    found = rejects(of, rows((1, "."), (2, "a.b"), (3, ".."), (4, "..."), (5, "%2e")))
    expected = {0, 2} if "." not in path else {0}
    assert found.keys() == expected
    assert all("another path" in reason for reason in found.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "http://h/{{nam}}"}, "names no column 'nam'"),
        ({"url": "http://{{name}}/"}, "a host is no template"),
        ({"url": "ftp://h/"}, "expected http://"),
        ({"url": "http://u:p@h/"}, "'username' and 'password'"),
        ({"body": '{"a": {{id}'}, "without its"),
        ({"body": "{{id}} and {{name}}"}, "is no JSON"),
        ({"body": "{{id}}", "sink_batch_max__rows": "2"}, "template of one row"),
        ({"header.": "x"}, "names no header"),
        ({"header.Host": "x"}, "made by the connector"),
        ({"format": "csv", "sink_batch_form": "array"}, "no array"),
        ({"token": "t", "username": "u", "password": "p"}, "two ways"),
        ({"username": "u"}, "by half"),
        ({"sink_retry__codes": "6xx"}, "expected statuses"),
        ({"headr.X": "x"}, "unknown option"),
    ],
)
def test_mistakes_are_told_where_the_table_is_used(
    hook: Receiver, given: dict[str, str], words: str
) -> None:
    wrong = table(options(hook, **given))
    with pytest.raises(PlanError) as error:  # noqa: PT012
        validate(wrong)
        capabilities_of(wrong)
    assert words in str(error.value)


# ---- who asks, and what proves it


def test_who_asks(hook: Receiver) -> None:
    sent(options(hook, token="t0"), (1, "a"))
    sent(options(hook, username="u", password="p"), (1, "a"))
    sent(options(hook) | {"header.Authorization": "Splunk s"}, (1, "a"))
    basic = base64.b64encode(b"u:p").decode()
    found = [g.headers["authorization"] for g in hook.got]
    assert found == ["Bearer t0", f"Basic {basic}", "Splunk s"]


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_signatures_are_what_receivers_compute(hook: Receiver, algorithm: str) -> None:
    secret = b"\x00\x01 a secret of bytes"
    coded = "whsec_" + base64.b64encode(secret).decode()
    clock = Clock(1_700_000_000_999)
    for scheme, text in (("standard", coded), ("timestamped", "plain"), ("body", "plain")):
        target = opened(
            options(
                hook,
                signature_secret=text,
                signature_scheme=scheme,
                signature_algorithm=algorithm,
            ),
            clock=clock,
        )
        target.write(rows((1, "é")))
        target.commit(1)
    standard, timestamped, body = hook.got
    signed = f"{standard.headers['webhook-id']}.1700000000.".encode() + standard.body
    mac = base64.b64encode(hmac.new(secret, signed, algorithm).digest()).decode()
    assert standard.headers["webhook-signature"] == f"v1,{mac}"
    assert standard.headers["webhook-timestamp"] == "1700000000"
    assert standard.headers["webhook-id"] == standard.headers["idempotency-key"]
    hexed = hmac.new(b"plain", b"1700000000." + timestamped.body, algorithm).hexdigest()
    assert timestamped.headers["x-signature"] == f"t=1700000000,v1={hexed}"
    digest = hmac.new(b"plain", body.body, getattr(hashlib, algorithm)).hexdigest()
    assert body.headers["x-hub-signature-256"] == f"{algorithm}={digest}"


def test_a_secret_part_of_the_address_is_in_no_error(hook: Receiver) -> None:
    hook.tells.append(Told(500, body=b"no"))
    with pytest.raises(Busy) as error:
        sent(options(hook, url_suffix="/T0/hush"), (1, "a"))
    assert hook.got[0].path == "/in/T0/hush"
    assert "hush" not in f"{error.value} {error.value.detail} {error.value.hint}"


# ---- answers


@pytest.mark.parametrize("status", [401, 403, 408, 425, 429, 500, 503])
def test_a_host_that_is_busy_gets_the_rest_later(hook: Receiver, status: int) -> None:
    hook.tells += [Told(), Told(status, {"Retry-After": "30"}, b"later")]
    target, now = timed(options(hook))
    target.write(rows((1, "a"), (2, "b"), (3, "c")))
    for _ in range(3):  # asked again too early it sends nothing
        with pytest.raises(Busy, match="does not take rows now") as error:
            target.commit(1)
    assert f"answers {status} later" in str(error.value.detail)
    assert [g.json["id"] for g in hook.got] == [1, 2]
    now[0] += 31
    assert target.commit(1) == 3
    assert [g.json["id"] for g in hook.got] == [1, 2, 2, 3]
    assert hook.got[1].headers["idempotency-key"] == hook.got[2].headers["idempotency-key"]
    health = target.health
    assert (health.retries, health.reconnects, health.trouble) == (1, 1, None)


def test_several_at_a_time_lose_none(hook: Receiver) -> None:
    hook.tells += [Told(503, after_s=0.05), Told(), Told(400), Told(503)]
    target, now = timed(options(hook, sink_requests_max__inflight="4"))
    target.write(rows(*((i, "x") for i in range(10))))
    with pytest.raises(Busy):
        target.commit(1)
    now[0] += 100
    assert target.commit(1) == 9
    assert sum(len(r.reasons) for r in target.refused()) == 1
    assert {g.json["id"] for g in hook.got} == set(range(10))
    assert len(hook.got) == 12


def test_rows_that_are_refused_are_told_once(hook: Receiver) -> None:
    hook.tells += [Told(), Told(422, body=b'{"error":\n "no such rule"}')]
    target = opened(options(hook, sink_batch_max__rows="2"))
    first, second = rows((1, "a"), (2, "b"), (3, "c")), rows((4, "d"), (5, "e"))
    target.write(first)
    target.write(second)
    assert target.commit(1) == 3
    told = target.refused()
    assert [(r.rows is first, r.rows is second, list(r.reasons)) for r in told] == [
        (True, False, [2]),
        (False, True, [0]),
    ]
    assert set(told[0].reasons.values()) == {'the webhook answers 422 {"error": "no such rule"}'}
    assert not target.refused()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Told(302, {"Location": "http://169.254.169.254/"}), "redirects, which is not followed"),
        (Told(410, body=b"deleted"), "is gone"),
    ],
)
def test_answers_that_no_row_would_change_fail_the_job(
    hook: Receiver, told: Told, words: str
) -> None:
    hook.tells.append(told)
    with pytest.raises(ExecutionError, match=words):
        sent(options(hook), (1, "a"))
    assert len(hook.got) == 1


def test_a_host_that_is_silent_or_away_is_waited_for(hook: Receiver) -> None:
    hook.tells.append(Told(after_s=1.5))
    with pytest.raises(Busy) as silent:
        sent(options(hook, request_timeout="200 ms"), (1, "a"))
    assert "no answer in time" in str(silent.value.detail)
    with pytest.raises(Busy) as away:
        sent(options(hook) | {"url": "http://127.0.0.1:1/"}, (1, "a"))
    assert "refused" in str(away.value.detail)
    with pytest.raises(Busy) as unknown:
        sent(options(hook) | {"url": "http://nowhere.invalid/"}, (1, "a"))
    assert "nowhere.invalid" in str(unknown.value.detail)


def test_times_to_wait() -> None:
    assert retry_after({"retry-after": "12"}) == 12
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:07 GMT"}, now) == 7
    assert retry_after({"retry-after": "soon"}) == retry_after({}) == 0
    back_off = BackOff()
    pauses = [back_off.failed(0.0) for _ in range(12)]
    assert all(0.75 * 2**i <= p <= 1.25 * 2**i for i, p in enumerate(pauses[:6]))
    assert all(p <= 75 for p in pauses)
    assert BackOff().failed(0.0, 1e9) == 3600


# ---- hosts


@pytest.mark.parametrize(
    ("hosts", "host", "address", "allowed"),
    [
        (None, "a.example", "93.184.216.34", True),
        (None, "a.example", "127.0.0.1", True),
        (None, "metadata", "169.254.169.254", False),
        (None, "metadata", "::ffff:169.254.169.254", False),
        (None, "link", "fe80::1%eth0", False),
        (None, "any", "0.0.0.0", False),
        (("*.example",), "A.example.", "10.0.0.1", True),
        (("*.example",), "a.example", "169.254.169.254", False),
        (("*.example",), "b.test", "10.0.0.1", False),
        (("10.0.0.0/8",), "b.test", "10.0.0.1", True),
        (("10.0.0.0/8",), "b.test", "11.0.0.1", False),
        (("169.254.169.254",), "m", "169.254.169.254", True),
    ],
)
def test_hosts_that_sql_may_reach(
    hosts: tuple[str, ...] | None, host: str, address: str, allowed: bool
) -> None:
    access = NetworkAccess(hosts)
    if allowed:
        access.check(host, address)
        return
    with pytest.raises(ExecutionError, match="is refused") as error:
        access.check(host, address)
    assert "--hosts" in str(error.value.hint)


def test_nothing_is_sent_to_a_host_that_is_refused(hook: Receiver) -> None:
    allowed = replace(environment(), network=NetworkAccess(("*.example",)))
    target = open_sink(table(options(hook)), allowed)
    target.write(rows((1, "a")))
    with pytest.raises(SqlError, match=r"host '127.0.0.1' is refused"):
        target.commit(1)
    assert hook.got == []


def test_options_that_name_files(hook: Receiver, tmp_path: Any) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    with pytest.raises(SqlError, match="cannot be used"):
        opened(options(hook, url="https://localhost:9", tls_ca=str(tmp_path / "ca.pem")))
    with pytest.raises(OptionError, match="bad value"):
        opened(options(hook, request_timeout="soon"))


def test_json_of_templates_is_json_whatever_is_in_the_row(hook: Receiver) -> None:
    schema = Schema.of(a=STRING, b=BIGINT)
    target = opened(options(hook, body='{"a": "{{a}}", "b": [{{a}}, {{b}}]}'), schema)
    texts = ["", '"', "\\", "\x00\x1f", "\u2028", "}}", "{{b}}", "☃", None]
    target.write(from_pydict(schema, {"a": texts, "b": list(range(len(texts)))}))
    target.commit(1)
    assert [json.loads(g.body)["a"] for g in hook.got] == [t or "" for t in texts]
    assert [json.loads(g.body)["b"] for g in hook.got] == [[t, i] for i, t in enumerate(texts)]
