"""A cluster of RocketMQ for all tests of a process, and brokers over it that leave no topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.on_rocketmq.address import cluster_address
from sqlengine.broker.on_rocketmq.broker import RocketBroker
from sqlengine.broker.remote.client import RemoteBroker
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.rocketmq.admin import delete_topic
from tests.broker.conftest import Clock
from tests.connectors.rocketmq.cluster import Cluster, running
from tests.servers.rocketmq import RocketServer

Opens = Callable[[Path], RocketBroker]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(RocketServer(tmp_path_factory.mktemp("rocketmq"))) as found:
        yield found


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own, whose broker may be killed."""
    with running(RocketServer(tmp_path / "rocketmq")) as cluster:
        yield cluster


@pytest.fixture
def opens(cluster: Cluster, clock: Clock) -> Iterator[Opens]:
    """Opens brokers over data folders. What they have made in the cluster goes with the test."""
    made: list[RocketBroker] = []

    def open_folder(folder: Path) -> RocketBroker:
        address = cluster_address(f"rocketmq://{cluster.server.address}")
        made.append(RocketBroker(folder, address, clock=clock, threads=clock))
        return made[-1]

    yield open_folder
    for topic in {name for broker in made for name in broker.cluster.names()}:
        delete_topic(cluster.client, topic)
    for broker in made:
        with suppress(BrokerError):
            broker.close()


@pytest.fixture
def rocket_broker(opens: Opens, folder: Path) -> RocketBroker:
    return opens(folder)


@pytest.fixture(params=["in this process", "carried"])
def any_broker(request: pytest.FixtureRequest, rocket_broker: RocketBroker) -> Broker:
    """As it is, and behind questions and answers."""
    if request.param == "carried":
        return RemoteBroker(lambda question, _: handle_request(rocket_broker, question))
    return rocket_broker
