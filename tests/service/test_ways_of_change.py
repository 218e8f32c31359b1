"""HTTP, watched folder, command line, command topic: the same life of a rule by each of them,
proven by alerts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.harness import User, rule
from tests.service.ways import WAYS, Folder, Rejected, Way
from tests.support import eventually


@pytest.fixture(params=WAYS, ids=lambda way: way.origin)
def way(request: pytest.FixtureRequest, user: User, data: Path) -> Way:
    found: Way = request.param(user, data / "jobs")
    return found


def test_the_life_of_a_rule(way: Way, user: User) -> None:
    name = f"{way.origin}-rule"
    first, second = rule(name, "amount > 5"), rule(name, "amount <= 5")
    way.submit(name, first)
    assert (user.fired(amount=6), user.fired(amount=5)) == ({name}, set())
    assert user.job(name)["origin"] == way.origin

    way.validate(name, second)
    assert way.history(name) == [first]
    assert (user.fired(amount=6), user.fired(amount=5)) == ({name}, set())

    way.submit(name, second)
    assert (user.fired(amount=6), user.fired(amount=5)) == (set(), {name})
    assert way.list()[name] == "running"

    way.stop(name)
    assert user.fired(amount=5) == set()
    assert way.list()[name] == "stopped"
    way.start(name)
    eventually(lambda: user.job(name)["graph"] == "main", "the others, as far as it has read")
    assert user.fired(amount=5) == {name}

    way.rollback(name, 1)
    assert (user.fired(amount=6), user.fired(amount=5)) == ({name}, set())
    assert way.history(name) == [first, second, first]

    way.remove(name)
    assert name not in way.list()
    assert user.fired(amount=6) == set()
    assert way.history(name) == [first, second, first]


def test_a_broken_rule_is_refused_and_the_old_version_runs_on(way: Way, user: User) -> None:
    name = f"{way.origin}-broken"
    good = rule(name, "amount > 5")
    way.submit(name, good)
    broken = {
        f"INSERT INTO alerts\nSELECT '{name}', id\nFROM events WHERE amont > 5": (
            "3:19",
            "unknown column 'amont'",
            "'amount'",
        ),
        rule(name, "REGEXP(word, '(')"): ("invalid regular expression '('", "unclosed group"),
        f"INSERT INTO alerts SELEKT '{name}', id FROM events": ("1:20", "SELEKT"),
        "SELECT id FROM events": ("a query alone has no place in a job", "sql query"),
    }
    for sql, told in broken.items():
        for attempt in (way.submit, way.validate):
            with pytest.raises(Rejected) as error:
                attempt(name, sql)
            assert all(part in str(error.value) for part in told), error.value
            assert (user.fired(amount=6), user.fired(amount=5)) == ({name}, set())
    assert way.history(name) == [good]
    way.submit(name, good)
    way.remove(name)
    assert user.fired(amount=6) == set()


def test_a_rule_that_was_never_good_leaves_no_trace(way: Way, user: User) -> None:
    name = f"{way.origin}-never"
    with pytest.raises(Rejected):
        way.submit(name, rule(name, "amont > 5"))
    assert name not in way.list()
    if way.origin == "folder":
        assert isinstance(way, Folder)
        user_file = way.folder / f"{name}.sql"
        user_file.unlink()
        eventually(lambda: not user.client.get("/api/v1/jobs")["refused_files"])
        assert not user_file.exists()
