"""One server for all tests of a module; each test uses names of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.access.shadow_names import rule_of
from tests.service.harness import User, running
from tests.support import eventually


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's data folder; its watched folder is `jobs` below it."""
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[User]:
    with running(data) as (_, user):
        user.prepare()
        yield user


@pytest.fixture
def user(server: User, data: Path) -> Iterator[User]:
    """A user of the module's server, on which only the jobs of `User.prepare` run."""
    yield server
    for path in (data / "jobs").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    eventually(
        lambda: not any(j["origin"] == "folder" for j in server.jobs()),
        "the end of the folder's jobs",
    )
    jobs = sorted(server.jobs(), key=lambda j: bool(j["defines"]))
    for name in dict.fromkeys(rule_of(job["name"]) for job in jobs):  # with their shadows
        if name not in ("tables", "timed", "all"):
            server.client.delete(f"/api/v1/jobs/{name}")
