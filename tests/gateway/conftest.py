"""A server with a gateway, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.broker.auto_create import AutoCreate
from sqlengine.config import QueryLimits
from tests.gateway.client import Session
from tests.service.harness import User, running

LIMITS = QueryLimits(at_once=24, rows_per_second=2_000_000)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's data folder."""
    return tmp_path_factory.mktemp("gateway") / "data"


@pytest.fixture(scope="module")
def user(data: Path) -> Iterator[User]:
    with running(data, queries=LIMITS, auto_create=AutoCreate(True, True)) as (_, user):
        user.prepare()
        yield user


@pytest.fixture(scope="module")
def address(user: User) -> str:
    return user.client.server.removeprefix("http://")


@pytest.fixture
def session(address: str) -> Iterator[Session]:
    with Session(address) as session:
        yield session
