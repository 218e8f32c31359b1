"""Jobs that share an operator: each has a letter for a row that fails in it, in whatever order they
came and went."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.harness import Process, User, running
from tests.support import eventually

_TOPIC = "WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json')"
TABLES = (
    f"CREATE TABLE p (id BIGINT, a INT, b INT) {_TOPIC.format('p')};"
    f"CREATE TABLE q (id BIGINT, b INT) {_TOPIC.format('p')};"
    "CREATE TABLE o1 (id BIGINT, n INT) WITH ('connector' = 'blackhole');"
    "CREATE TABLE o2 (id BIGINT, n INT) WITH ('connector' = 'blackhole');"
    "CREATE VIEW v AS SELECT id, a / b AS n FROM p WHERE a <> 3"
)
# Each fails for {"id": 2, "a": 1, "b": 0}.
SHARED = {
    "projection": "SELECT id, a / b FROM p",
    "filter": "SELECT id, a FROM p WHERE 10 / b > 0",
    "behind": "SELECT id, 7 / b FROM p WHERE a > 0",
    "aggregate": "SELECT id, SUM(a / b) FROM p GROUP BY id",
    "join": "SELECT p.id, p.a FROM p JOIN q ON p.id = q.id AND p.a / q.b > 0",
    "view": "SELECT id, n + 1 FROM v",
    "union": "SELECT id, 8 / b FROM p UNION ALL SELECT id, a FROM p",
}
A = {f"{kind}-a": f"INSERT INTO o1 {text}" for kind, text in SHARED.items()}
B = {f"{kind}-b": f"INSERT INTO o2 {text}" for kind, text in SHARED.items()}
FAIL = "SET 'job.on-error' = 'fail';"
BAD: dict[str, object] = {"id": 2, "a": 1, "b": 0}


def _prepare(user: User) -> User:
    user.topic("p")
    user.submit("tables", TABLES)
    return user


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with running(tmp_path / "data") as (_, found):
        yield _prepare(found)


def _submit(user: User, *changes: dict[str, str]) -> None:
    for jobs in changes:
        user.client.post("/api/v1/jobs", {"jobs": jobs})


def _letters(user: User, least: int) -> Counter[tuple[str, int]]:
    """How many letters each job and version has, once there are at least so many."""
    eventually(lambda: len(user.letters()) >= least)
    return Counter((r["job"], r["version"]) for r in user.letters())


def _each(*jobs: dict[str, str], times: int = 1) -> Counter[tuple[str, int]]:
    return Counter({(name, 1): times for names in jobs for name in names})


@pytest.mark.parametrize("changes", [(A, B), (B, A), (A | B,)], ids=["a b", "b a", "together"])
def test_each_job_has_its_letter(user: User, changes: tuple[dict[str, str], ...]) -> None:
    _submit(user, *changes)
    user.write("p", BAD)
    assert _letters(user, 2 * len(SHARED)) == _each(A, B)


@pytest.mark.parametrize("changes", [(A, B), (A | B,)], ids=["a b", "together"])
def test_a_job_that_is_gone_has_no_letters(user: User, changes: tuple[dict[str, str], ...]) -> None:
    _submit(user, *changes)
    for name in A:
        user.client.delete(f"/api/v1/jobs/{name}")
    user.write("p", BAD)
    assert _letters(user, len(SHARED)) == _each(B)


@pytest.mark.parametrize("failing", [(B,), (A, B)], ids=["b", "both"])
def test_a_job_fails_by_its_own_setting(user: User, failing: tuple[dict[str, str], ...]) -> None:
    fails = {name for jobs in failing for name in jobs}
    _submit(user, *({n: FAIL * (n in fails) + text for n, text in j.items()} for j in (A, B)))
    user.write("p", BAD)
    eventually(lambda: {n for n, state in user.states().items() if state == "failed"} == fails)
    others = {n: text for n, text in (A | B).items() if n not in fails}
    assert _letters(user, len(others)) == _each(others)


def test_letters_after_a_kill(tmp_path: Path) -> None:
    """What is repeated gives the same letters, and none twice."""
    with Process(tmp_path / "data") as life:
        user = _prepare(life.user())
        _submit(user, A)
        user.write("p", BAD)
        assert _letters(user, len(SHARED)) == _each(A)
        _submit(user, B)
        user.write("p", BAD | {"id": 3})
        assert _letters(user, 3 * len(SHARED)) == _each(A, times=2) + _each(B)
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
    with Process(tmp_path / "data") as life:
        user = life.user()
        user.write("p", BAD | {"id": 4})
        assert _letters(user, 5 * len(SHARED)) == _each(A, times=3) + _each(B, times=2)


# A line of the file that all of them write cannot hold the text of BAD_LINE.
LINES = """CREATE TABLE r (id BIGINT, a INT, s STRING) WITH ('connector' = 'topic', 'topic' = 'p', 'format' = 'json');
CREATE TABLE lines (s STRING) WITH ('connector' = 'filesystem', 'path' = 'lines', 'format' = 'raw')"""
WRITERS = {
    "rule": "INSERT INTO lines SELECT s FROM r WHERE a = 1",
    "another-rule": "INSERT INTO lines SELECT UPPER(s) FROM r WHERE a > 0",
    "no-match": "INSERT INTO lines SELECT s FROM r WHERE a = 2",
    "all": "INSERT INTO lines SELECT s FROM r",
    "all-too": "INSERT INTO lines SELECT s FROM r",
}
BAD_LINE: dict[str, object] = {"id": 2, "a": 1, "s": "one\ntwo"}


@pytest.mark.parametrize("fails", [frozenset[str](), frozenset({"rule", "all"})])
def test_rows_of_one_table_are_letters_of_their_jobs(
    user: User, fails: frozenset[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the table's relative path leads
    user.submit("lines", LINES)
    _submit(user, {n: FAIL * (n in fails) + text for n, text in WRITERS.items()})
    user.write("p", BAD_LINE)
    eventually(lambda: {n for n, state in user.states().items() if state == "failed"} == fails)
    others = {n: text for n, text in WRITERS.items() if n not in fails and n != "no-match"}
    assert _letters(user, len(others)) == _each(others)
