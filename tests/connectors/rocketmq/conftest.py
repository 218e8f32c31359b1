"""A cluster of RocketMQ for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.rocketmq.cluster import Cluster, running
from tests.servers.rocketmq import RocketServer


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"compactionScheduleInternal": "1000"}
    with running(RocketServer(tmp_path_factory.mktemp("rocketmq"), settings=settings)) as found:
        yield found
