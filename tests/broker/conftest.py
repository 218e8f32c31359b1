from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker


class Clock:
    """Milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def broker(folder: Path) -> Iterator[EmbeddedBroker]:
    opened = EmbeddedBroker(folder)
    yield opened
    opened.close()


@pytest.fixture
def any_broker(folder: Path, clock: Clock) -> Iterator[Broker]:
    opened = EmbeddedBroker(folder, clock=clock)
    yield opened
    opened.close()
