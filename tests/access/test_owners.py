"""Files of the watched folder and their owners, and the state of a principal's jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sqlengine.client import Client
from tests.access.conftest import TOKENS, access_text
from tests.service.harness import User, running
from tests.support import eventually

STRANGER, ALICE = 54_321, 54_322
FILES = f"""
[principals.root]
roles = ["admin"]

[principals.alice]
roles = ["submit", "write"]
jobs = ["a.*"]
topics = ["a.*"]
users = [{ALICE}]

[principals.bob]
roles = ["submit", "write"]
jobs = ["b.*"]
quota = {{ state = "2mb" }}
"""
JOB = """CREATE TEMPORARY TABLE i (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{}', 'format' = 'json');
CREATE TEMPORARY TABLE o (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'a.out', 'format' = 'json');
INSERT INTO o SELECT id FROM i"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, Path]]:
    folder = tmp_path_factory.mktemp("owners")
    file = folder / "access.toml"
    file.write_text(access_text(FILES))
    with running(folder / "data", access=file) as (service, _):
        url = f"http://127.0.0.1:{service.port}"
        user = User(Client(url, TOKENS["root"], "rest"))
        for topic in ("a.in", "a.out", "b.in"):
            user.topic(topic)
        yield user, folder / "data" / "jobs"


def put(folder: Path, name: str, text: str, owner: int) -> Path:
    file = folder / "new"
    file.write_text(text)
    os.chown(file, owner, owner)
    return file.rename(folder / name)


def refusal_of(user: User, path: Path) -> str:
    files = user.client.get("/api/v1/jobs")["refused_files"]
    assert isinstance(files, list)
    return next((str(f["error"]) for f in files if f["file"] == str(path)), "")


def test_the_owner_of_a_file_is_its_principal(root: tuple[User, Path]) -> None:
    user, folder = root
    put(folder, "a.mine.sql", JOB.format("a.in"), ALICE)
    eventually(lambda: user.states().get("a.mine") == "running")
    assert user.job("a.mine")["by"] == "alice"
    assert user.job("a.mine")["origin"] == "folder"
    refused = {
        put(folder, "b.x.sql", JOB.format("a.in"), ALICE): "may not change job 'b.x'",
        put(folder, "a.steals.sql", JOB.format("b.in"), ALICE): "may not read topic 'b.in'",
        put(folder, "a.other.sql", JOB.format("a.in"), STRANGER): "may not change job 'a.other'",
    }
    for path, error in refused.items():
        found = eventually(partial(refusal_of, user, path))
        assert error in found
    put(folder, "any.sql", JOB.format("b.in"), os.geteuid())
    eventually(lambda: user.states().get("any") == "running")
    assert user.states().keys() == {"a.mine", "any"}
    (folder / "a.mine.sql").rename(folder / "b.mine.sql")  # its owner may not have such a job
    assert "may not change job 'b.mine'" in eventually(
        lambda: refusal_of(user, folder / "b.mine.sql")
    )
    eventually(lambda: "a.mine" not in user.states())


def test_the_state_of_all_jobs_of_a_principal(root: tuple[User, Path]) -> None:
    """The one with the most state fails when they hold more than the quota together; jobs of
    others go on, and so does the other one of its principal."""
    user, _ = root
    bob = User(Client(user.client.server, TOKENS["bob"], "rest"))
    count = (
        "CREATE TEMPORARY TABLE i (id BIGINT, word STRING) WITH ('connector' = 'topic', 'topic' = 'b.in',"
        " 'format' = 'json'); CREATE TEMPORARY TABLE o (w STRING, n BIGINT) WITH ('connector' = 'blackhole');"
        " INSERT INTO o SELECT {}, COUNT(*) FROM i GROUP BY {}"
    )
    user.submit("r.large", count.format("word || 'x'", "word || 'x'"))
    bob.submit("b.large", count.format("word", "word"))
    bob.submit("b.small", count.format("LEFT(word, 1)", "LEFT(word, 1)"))
    for n in range(40):
        user.write("b.in", *({"id": i, "word": f"{n}-{i}" + "w" * 200} for i in range(500)))
    eventually(lambda: bob.states()["b.large"] == "failed", lambda: str(user.states()))
    assert "state of all jobs of principal 'bob' takes" in str(bob.job("b.large")["reason"])
    assert user.states()["r.large"] == "running"
    assert bob.states()["b.small"] == "running"
