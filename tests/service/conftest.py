"""One server for all tests of a module; each test uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.harness import User, running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's data folder; its watched folder is `jobs` below it."""
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="module")
def user(data: Path) -> Iterator[User]:
    with running(data) as (_, user):
        user.prepare()
        yield user
