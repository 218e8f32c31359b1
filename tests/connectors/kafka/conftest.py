"""The Kafka broker of these tests, started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers.kafka import KafkaServer
from tests.servers.process import started

if TYPE_CHECKING:
    from tests.connectors.kafka.clients import Kafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    pytest.importorskip("confluent_kafka", reason="the client of Kafka is not installed")
    from tests.connectors.kafka.clients import Kafka

    with started(KafkaServer(tmp_path_factory.mktemp("kafka") / "server")) as server:
        yield Kafka(server)
