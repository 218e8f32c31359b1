"""Who may change what: origins, definitions that others use, topics that jobs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import User, rule
from tests.service.ways import WAYS, Rejected, Way
from tests.support import eventually


def test_the_latest_change_wins_whichever_way_it_came(user: User) -> None:
    user.submit("owned", rule("owned"))
    answer = user.command(op="submit", name="owned", sql=rule("changed"))
    assert (answer["status"], answer["version"]) == ("replaced", 2)
    assert (user.job("owned")["origin"], user.fired()) == ("topic", {"changed"})
    # The same text again is no change, whoever sends it.
    assert user.submit("owned", rule("changed"))["status"] == "unchanged"
    assert user.job("owned")["origin"] == "topic"
    assert user.command(op="rollback", name="owned", version=1)["version"] == 3
    versions: Any = user.client.get("/api/v1/jobs/owned/history")["versions"]
    assert [v["origin"] for v in versions] == ["rest", "topic", "topic"]
    assert user.client.delete("/api/v1/jobs/owned")["status"] == "removed"
    assert user.fired() == set()


def test_requests_that_take_over_as_earlier_versions_had_it_are_understood(user: User) -> None:
    first = user.submit("owned", rule("owned"))["version"]
    taken = user.command(op="submit", name="owned", sql=rule("taken"), take_over=True)
    assert taken["status"] == "replaced"
    assert user.submit("owned", rule("back"), take_over="true")["status"] == "replaced"
    rolled = user.client.post("/api/v1/jobs/owned/rollback", b"", version=first, take_over="true")
    assert (rolled["status"], user.job("owned")["origin"]) == ("replaced", "rest")
    assert user.client.delete("/api/v1/jobs/owned", take_over="true")["status"] == "removed"


TABLE = (
    "CREATE TABLE shared_{n} ({columns}) WITH ('connector' = 'topic', 'topic' = 'shared{n}',"
    " 'format' = 'json')"
)


def test_a_definition_in_use_is_neither_removed_nor_changed(user: User) -> None:
    old = TABLE.format(n=1, columns="id BIGINT")
    user.submit("definition", old)
    for name in ("user-a", "user-b"):
        user.submit(name, "INSERT INTO shared_1 SELECT id FROM events")
    error = user.refused(lambda: user.client.delete("/api/v1/jobs/definition"))
    assert (error.status, error.message) == (409, "'shared_1' is used by user-a, user-b")
    assert error.hint
    error = user.refused(lambda: user.submit("definition", TABLE.format(n=1, columns="id STRING")))
    assert error.status == 409
    assert "shared_1" in error.message
    assert user.job("definition")["sql"] == old
    assert (
        user.submit("again", old)["status"] == "added"
    )  # the same definition again is no conflict
    error = user.refused(lambda: user.submit("other", TABLE.format(n=1, columns="id INT")))
    assert "shared_1" in str(error)
    for name in ("user-a", "user-b"):
        user.client.delete(f"/api/v1/jobs/{name}")
    user.client.delete("/api/v1/jobs/again")
    assert user.submit("definition", TABLE.format(n=1, columns="id STRING"))["status"] == "replaced"
    user.client.delete("/api/v1/jobs/definition")


def test_who_uses_a_definition_that_cannot_change(user: User) -> None:
    user.submit("definition", TABLE.format(n=4, columns="id BIGINT"))
    user.submit("user-a", "INSERT INTO shared_4 SELECT id FROM events")
    error = user.refused(lambda: user.submit("definition", TABLE.format(n=4, columns="id STRING")))
    assert "user-a" in str(error)


def test_a_text_that_no_longer_defines_what_others_use(user: User) -> None:
    old = TABLE.format(n=5, columns="id BIGINT")
    user.submit("definition", old)
    user.submit("user-a", "INSERT INTO shared_5 SELECT id FROM events")
    error = user.refused(lambda: user.submit("definition", TABLE.format(n=6, columns="id BIGINT")))
    assert (error.status, error.message) == (409, "'shared_5' is used by user-a")
    assert user.job("definition")["sql"] == old
    user.client.delete("/api/v1/jobs/user-a")
    assert user.submit("definition", TABLE.format(n=6, columns="id BIGINT"))["status"] == "replaced"


def test_a_job_that_comes_back_is_added(user: User) -> None:
    for version in (1, 2):
        done = user.submit("back", rule("back"))
        assert (done["status"], done["version"]) == ("added", version)
        user.client.delete("/api/v1/jobs/back")


def test_users_of_a_definition_may_go_with_it(user: User) -> None:
    user.submit(
        "both",
        TABLE.format(n=2, columns="id BIGINT") + ";\nINSERT INTO shared_2 SELECT id FROM events",
    )
    assert user.client.delete("/api/v1/jobs/both")["status"] == "removed"
    error = user.refused(lambda: user.submit("alone", "INSERT INTO shared_2 SELECT id FROM events"))
    assert "unknown table 'shared_2'" in error.message


def test_a_topic_in_use_is_not_deleted(user: User) -> None:
    error = user.refused(lambda: user.client.delete("/api/v1/topics/events"))
    assert (error.status, error.message) == (409, "topic 'events' is used by all")
    assert user.fired() == set()
    user.topic("free")
    assert user.client.delete("/api/v1/topics/free") == {"deleted": "free"}


@pytest.mark.parametrize("way", [w for w in WAYS if w.origin != "folder"], ids=lambda w: w.origin)
def test_what_does_not_exist(way: type[Way], user: User, data: Path) -> None:
    found = way(user, data / "jobs")  # type: ignore[call-arg]
    for attempt in (
        found.remove,
        found.start,
        found.stop,
        found.history,
        lambda n: found.rollback(n, 1),
    ):
        with pytest.raises(Rejected, match=r"job 'ghost' (does not exist|has no version)"):
            attempt("ghost")
    user.submit(f"real-{found.origin}", rule("real"))
    with pytest.raises(Rejected, match=r"has no version 7[\s\S]*versions: 1\b"):
        found.rollback(f"real-{found.origin}", 7)


def fired_for(user: User, event: object) -> list[str]:
    """The rules that have given an alert for the event so far."""
    return [alert["rule"] for alert in user.read("alerts") if alert["id"] == event]


def test_starting_and_stopping_twice_changes_nothing(user: User) -> None:
    user.submit("twice", rule("twice"))
    assert user.client.post("/api/v1/jobs/twice/start")["status"] == "unchanged"
    for _ in range(2):
        assert user.client.post("/api/v1/jobs/twice/stop")["status"] == "stopped"
    assert user.fired() == set()
    assert user.client.post("/api/v1/jobs/twice/start")["status"] == "started"
    # In a graph of its own at first, since the others have read on: its rows come apart from theirs.
    event = user.event()
    user.write("events", event)
    eventually(
        lambda: sorted(fired_for(user, event["id"])) == ["all", "twice"], "one alert of each"
    )
    assert user.submit("twice", rule("twice"))["status"] == "unchanged"
    user.client.delete("/api/v1/jobs/twice")


def test_of_a_job_that_only_defines_nothing_starts_or_stops(user: User) -> None:
    user.submit("only-defines", TABLE.format(n=3, columns="id BIGINT"))
    for verb in ("stop", "start"):
        assert user.client.post(f"/api/v1/jobs/only-defines/{verb}")["status"] == "unchanged"
        assert user.job("only-defines")["state"] == "defined"
