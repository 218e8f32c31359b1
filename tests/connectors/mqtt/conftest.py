"""One mosquitto for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.mqtt.world import World
from tests.servers.mosquitto import Mosquitto
from tests.servers.process import started


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with started(Mosquitto(tmp_path_factory.mktemp("mqtt") / "mosquitto")) as server:
        yield server


@pytest.fixture
def world(mosquitto: Mosquitto, tmp_path: Path) -> World:
    return World(mosquitto, tmp_path)
