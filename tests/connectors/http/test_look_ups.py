"""Hosts that are asked for the rows of keys."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.http.answers import JSON, told
from tests.servers.webhook import Got, Receiver, Told
from tests.sql.golden import Collected

ASKED = """
CREATE TABLE asks (id BIGINT, kind STRING, pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '{folder}/asks.json', 'format' = 'json');
CREATE TABLE people (id BIGINT, kind STRING, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'http', 'url' = '{url}/people/{{{{id}}}}?v=1', 'format' = 'json', 'lookup.cache' = '{cache}');
SELECT a.id, p.kind, p.name FROM asks AS a
LEFT JOIN people FOR SYSTEM_TIME AS OF a.pt AS p ON a.id = p.id AND a.kind = p.kind;
"""


def person(got: Got) -> Told:
    """Names of people by number and kind, without their numbers; nobody has 404."""
    parts = urlsplit(got.path)
    number, (kind,) = int(parts.path.rpartition("/")[2]), parse_qs(parts.query)["kind"]
    if number == 404:
        return told({"error": "nobody"}, 404)
    if number == 13:
        return Told(200, JSON, b'[{"name": 1}, {"name": "bad"')
    return told([{"name": f"{kind} {number} {i}"} for i in range(number % 3)])


@pytest.mark.parametrize("cache", ["PARTIAL", "NONE"])
def test_a_host_is_asked_for_each_key(host: Receiver, tmp_path: Path, cache: str) -> None:
    host.reply = person
    asks = [(1, "a/b"), (2, "c"), (404, "c"), (3, "c"), (1, "a/b"), (1, "c"), (2, "c")]
    lines = [json.dumps({"id": i, "kind": k}) + "\n" for i, k in asks]
    (tmp_path / "asks.json").write_text("".join(lines))
    text = ASKED.format(folder=tmp_path, url=host.url, cache=cache)
    collected = Collected(text)
    with open_runner(tmp_path / "data", rows_per_read=4) as runner:
        assert Session(runner, collected).run(text), collected.messages
    wanted = [
        [i, k, f"{k} {i} {n}"] if i % 3 and i != 404 else [i, None, None]
        for i, k in asks
        for n in range(max(i % 3, 1) if i != 404 else 1)
    ]
    assert [e["row"] for e in collected.events if e["kind"] == "row"] == wanted
    paths = [g.path for g in host.got]
    assert sorted(set(paths)) == sorted(
        {f"/people/{i}?v=1&kind={k.replace('/', '%2F')}" for i, k in asks}
    )
    assert len(paths) == (5 if cache == "PARTIAL" else 7)


def test_no_key_leads_to_another_place(host: Receiver, tmp_path: Path) -> None:
    host.reply = lambda got: told([{"name": got.path}])
    keys = ["..", ".", "", "a/../b", "%2e%2e", "ok"]
    lines = [json.dumps({"id": 1, "kind": k}) + "\n" for k in keys]
    (tmp_path / "asks.json").write_text("".join(lines))
    text = ASKED.format(folder=tmp_path, url=host.url, cache="NONE").replace("{{id}}", "{{kind}}")
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    assert sorted(g.path for g in host.got) == [
        f"/people/{k}?v=1&id=1" for k in ("%252e%252e", "a%2F..%2Fb", "ok")
    ]


def test_a_host_that_answers_badly_fails_the_look_up(host: Receiver, tmp_path: Path) -> None:
    host.reply = person
    (tmp_path / "asks.json").write_text('{"id": 13, "kind": "c"}\n')
    text = ASKED.format(folder=tmp_path, url=host.url, cache="NONE")
    text = text.replace(
        "'lookup.cache' = 'NONE'", "'lookup.cache' = 'NONE', 'lookup.max-retries' = '1'"
    )
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert not Session(runner, collected).run(text)
    (message,) = collected.messages
    assert "table 'people' cannot be asked for rows" in message
    assert "no JSON" in message
    assert len(host.got) == 2
