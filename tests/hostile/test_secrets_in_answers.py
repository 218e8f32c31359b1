"""Secrets that a host or a library gives back in another form than they have, or by half."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import quote

import pytest

from parser.errors import SqlError
from parser.types import BIGINT, Schema
from sqlengine.batch import from_pydict
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.system.hidden import hand_out, hidden
from sqlengine.system.secrets import Secrets
from tests.connectors.tables import environment, table
from tests.servers.webhook import Got, Receiver, Told, receiving

IDS = Schema.of(id=BIGINT)
PART = "9f2cc0de"
AWKWARD = f"it's \"{PART}\\é\n"


@pytest.fixture
def host() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.mark.parametrize(
    "form",
    [
        AWKWARD,
        AWKWARD.strip(),
        repr(AWKWARD),
        repr(AWKWARD.encode()),
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
    ],
)
def test_a_secret_is_hidden_in_every_form_of_it(form: str) -> None:
    hand_out(AWKWARD)
    assert PART not in hidden(f"the driver says: {form}, and more")


@pytest.mark.parametrize("padding", [0, 150])
@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("option", ["token", "password", "header.X-Key"])
def test_an_answer_with_the_request_tells_nothing(
    host: Receiver, monkeypatch: pytest.MonkeyPatch, option: str, status: int, padding: int
) -> None:
    """Neither rows that are refused, nor the trouble of a table, nor errors; also where the text is
    cut within the secret."""
    value = "secret-" + PART * 8
    monkeypatch.setenv("SQLENGINE_SECRET_A", value)
    options = {"url": host.url, "format": "json", option: "${secret:A}"}
    options |= {"username": "app"} if option == "password" else {}
    opening = replace(environment(), secrets=Secrets(None))
    host.reply = lambda got: Told(status, {}, b"." * padding + sent_in(got))
    sink = open_sink(table({"connector": "webhook", **options}, IDS), opening)
    sink.write(from_pydict(IDS, {"id": [1]}))
    said = words(lambda: sink.commit(1)) if status == 500 else str(sink.commit(1))
    assert sink.health is not None
    said += f"{[r.reasons for r in sink.refused()]} {sink.health.trouble}"
    if status == 400:  # the other is asked several times
        said += words(lambda: open_source(table({"connector": "http", **options}, IDS), opening))
    assert said.count(f"answers {status}") >= 2
    assert PART not in said
    assert base64.b64encode(f"app:{value}".encode()).decode()[:20] not in said


def sent_in(got: Got) -> bytes:
    return (got.headers.get("authorization") or got.headers["x-key"]).encode()


def words(call: Callable[[], object]) -> str:
    """What a call says that fails."""
    with pytest.raises(SqlError) as error:
        call()
    return f"{error.value} {error.value.detail}"


def test_a_header_that_no_request_may_have(
    host: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The library that refuses it shows its bytes; letters of others are sent."""
    monkeypatch.setenv("SQLENGINE_SECRET_A", f"{PART}\r\nX-Other: 1")
    monkeypatch.setenv("SQLENGINE_SECRET_B", "é€")
    options = {"connector": "http", "url": host.url, "format": "json"}
    opening = replace(environment(), secrets=Secrets(None))
    with pytest.raises(SqlError, match=r"'header.X-Key' of table 't' has a line break") as error:
        open_source(table({**options, "header.X-Key": "${secret:A}"}, IDS), opening)
    assert PART not in f"{error.value}{error.value.detail}{caplog.text}"
    host.reply = lambda _: Told(200, {}, b"[]")
    open_source(table({**options, "header.X-Key": "${secret:B}"}, IDS), opening)
    assert host.got[-1].headers["x-key"].encode("latin-1").decode() == "é€"
