"""A host that answers as a test tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.webhook import Receiver, receiving


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def host(server: Receiver) -> Receiver:
    server.got.clear()
    server.tells.clear()
    server.reply = None
    return server
