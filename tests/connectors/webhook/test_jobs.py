"""Jobs that write to a webhook: refused rows are dead letters, a host that is away holds up nobody
else, and no row is lost when either side is killed."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

from tests.servers.webhook import Got, Told, WebhookServer, receiving
from tests.service.harness import Process, User, rule, running
from tests.support import eventually


def hook(name: str, url: str, more: str = "") -> str:
    return (
        f"CREATE TABLE {name} (rule STRING, id BIGINT) WITH ('connector' = 'webhook', 'format' = 'json',"
        f" 'url' = '{url}'{more});"
    )


def to(table: str, where: str = "TRUE") -> str:
    return rule(table, where).replace("INTO alerts", f"INTO {table}")


def test_refused_rows_are_dead_letters_of_their_job(tmp_path: Path) -> None:
    with receiving() as receiver, running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("hooks", hook("hook", receiver.url))
        receiver.tells += [Told(), Told(422, body=b"no such rule")]
        user.submit("one", to("hook"))
        for event in [user.event() for _ in range(3)]:
            user.write("events", event)
            eventually(lambda: user.alerts(event["id"]) == set())  # noqa: B023
        letters = eventually(user.letters)
        eventually(lambda: len(receiver.got) == 3)
        assert [(x["job"], x["subject"], x["reason"]) for x in letters] == [
            ("one", "table hook", "the webhook answers 422 no such rule")
        ]
        assert '"id": 2' in letters[0]["payload"]
        assert [g.json["id"] for g in receiver.got] == [1, 2, 3]


def test_a_host_that_is_away_holds_up_nobody(tmp_path: Path) -> None:
    """Its rows wait, and come when it is there; other jobs write on meanwhile."""
    server = WebhookServer(tmp_path / "receiver")
    with running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("hooks", hook("hook", server.url))
        user.submit("one", to("hook"))
        for _ in range(5):
            assert user.fired() == set()
        told = eventually(lambda: str(user.job("one")).count("does not take rows now"))
        assert told
        eventually(lambda: user.job("one")["isolated"])
        with server:
            eventually(lambda: len(server.got()) == 5)
            assert [g.json["id"] for g in server.got()] == [1, 2, 3, 4, 5]
            eventually(lambda: user.job("one").get("hint") is None)
            # It is alone for a while, and told as what is past.
            assert user.job("one")["reason"].startswith("sink 'hook' waited: the webhook")
        assert user.states()["one"] == "running"


def test_secrets_are_shown_to_the_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLENGINE_SECRET_HOOK", "hush-hush")
    secret = "${secret:HOOK}"
    more = f", 'url.suffix' = '/{secret}', 'header.X-Key' = 'k {secret}', 'signature.secret' = '{secret}'"
    with receiving() as receiver, running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("hooks", hook("hook", receiver.url, more))
        user.submit("one", to("hook"))
        receiver.tells.append(Told(500, body=b"hush-hush is wrong"))
        user.fired()
        eventually(lambda: len(receiver.got) == 2)
        assert receiver.got[1].path == "/hush-hush"
        assert receiver.got[1].headers["x-key"] == "k hush-hush"
        seen = [str(user.job("one")), str(user.job("hooks")), user.client.get_text("/metrics")]
        assert all("hush-hush" not in text for text in seen)


def life(folder: Path, kills: int) -> None:
    """Rows are written while the server, and the receiver, are killed in turn."""
    receiver, data, count = WebhookServer(folder / "receiver"), folder / "data", 0
    with receiver:
        for turn in range(kills + 1):
            with Process(data) as process:
                user: User = process.user()
                if not turn:
                    user.prepare()
                    more = ", 'sink.batch.max-rows' = '3'"
                    user.submit("hooks", hook("hook", receiver.url, more))
                    user.submit("one", to("hook"))
                user.write("events", *(json.dumps({"id": count + i}).encode() for i in range(20)))
                count += 20
                if turn % 2:
                    receiver.kill()
                    receiver.start()
                if turn < kills:
                    # At another place of the epochs' way each time.
                    want = 20 * turn + 6 * (turn % 4)
                    eventually(lambda: len(ids(receiver.got())) >= want)  # noqa: B023
                    process.end(signal.SIGKILL)
                    continue
                eventually(lambda: len(ids(receiver.got())) == count)  # noqa: B023
                assert user.states()["one"] == "running"
    bodies = defaultdict(set)
    for got in receiver.got():
        bodies[got.headers["idempotency-key"]].add(got.body)
    assert all(len(found) == 1 for found in bodies.values()), "a key stands for one request"
    rows = [row["id"] for found in bodies.values() for row in Got("", "", {}, found.pop()).json]
    assert sorted(rows) == list(range(count)), "who drops repeated keys has each row once"


def ids(got: list[Got]) -> set[int]:
    return {row["id"] for g in got for row in g.json}


def test_no_row_is_lost_through_kills(tmp_path: Path) -> None:
    life(tmp_path, 2)


@pytest.mark.slow
def test_no_row_is_lost_through_many_kills(tmp_path: Path) -> None:
    life(tmp_path, int(os.environ.get("SQLENGINE_KILLS", "50")))
