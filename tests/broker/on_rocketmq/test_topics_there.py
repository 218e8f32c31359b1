"""What a cluster does not have is refused with what can be done; the rest are its topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerAway, BrokerError, TopicNotFound
from sqlengine.broker.on_rocketmq.address import cluster_address
from sqlengine.broker.on_rocketmq.broker import RocketBroker
from sqlengine.broker.on_rocketmq.names import is_in_cluster, name_in_cluster
from sqlengine.broker.rocketmq.admin import delete_topic
from sqlengine.broker.rocketmq.topic import RocketTopic
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.broker.on_rocketmq.conftest import Opens
from tests.connectors.rocketmq.cluster import Cluster, send


@pytest.mark.parametrize(
    "text",
    [
        "kafka://a:1", "rocketmq://", "rocketmq://a", "rocketmq://a:1?x=1", "rocketmq://a:1;b",
        "rocketmq://a:1?tls=yes", "rocketmq://a:1?trusted=ca.pem", "rocketmq://a:1?tls=true&verify=no",
        "rocketmq://a:1?tls=false&key=me.key",
    ],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ServiceError, match="is not the address of a broker"):
        cluster_address(text)


def test_how_connections_are_encrypted(tmp_path: Path) -> None:
    assert cluster_address("rocketmq://a:1?tls=false&commands=one").tls is None
    found = cluster_address("rocketmq://a:1?tls=true&verify=false").tls
    assert found is not None
    assert not found.verify
    with pytest.raises(ServiceError, match="certificate or key for RocketMQ cannot be used"):
        cluster_address(f"rocketmq://a:1?tls=true&trusted={tmp_path}/none.pem")


def test_names_in_the_cluster() -> None:
    assert name_in_cluster("orders") == "orders"
    assert name_in_cluster("_commands") == "_commands"
    assert name_in_cluster("_command_results", "plant") == "plant_command_results"
    assert not any(map(is_in_cluster, ("_epochs", "_offsets", "_dead_letters", "_received_1")))
    for name in ("a.b", "x" * 128):
        with pytest.raises(BrokerError, match="cannot be in RocketMQ"):
            name_in_cluster(name)


def test_no_cluster_is_there(folder: Path) -> None:
    with pytest.raises(BrokerAway) as away:
        RocketBroker(folder, cluster_address("rocketmq://127.0.0.1:1"))
    assert away.value.hint == "see --broker, and whether the servers run"
    EmbeddedBroker(folder).close()  # nothing has it any more


def test_a_folder_with_topics_of_its_own(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("orders")
    broker.close()
    with pytest.raises(BrokerError, match="are in it, and not in RocketMQ: orders") as refused:
        RocketBroker(folder, cluster_address("rocketmq://127.0.0.1:1"))
    assert refused.value.hint == "start without --broker, or with an empty data folder"


@pytest.mark.slow
def test_a_folder_whose_topics_are_in_a_cluster(opens: Opens, folder: Path) -> None:
    opens(folder).close()
    with pytest.raises(ServiceError, match="are in RocketMQ"):
        Engine(Config(data=folder))


@pytest.mark.slow
def test_what_topics_of_a_cluster_have_not(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    refused = (
        lambda: any_broker.create_topic("u", compacted=True),
        lambda: any_broker.create_topic("u", retention_ms=1),
        lambda: any_broker.alter_topic("t", max_bytes=1),
        lambda: any_broker.trim("t", 0, 1),
        lambda: any_broker.compact("t"),
        lambda: any_broker.lookup("t", b"k"),
        lambda: any_broker.create_topic("a.b"),
    )
    for call in refused:
        with pytest.raises(BrokerError) as error:
            call()
        assert error.value.hint
    with pytest.raises(TopicNotFound):
        any_broker.topic("u")
    any_broker.delete_topic("t")
    with pytest.raises(TopicNotFound):
        any_broker.end_offset("t", 0)


@pytest.mark.slow
def test_messages_of_others_are_records(cluster: Cluster, any_broker: Broker) -> None:
    any_broker.create_topic("t")
    topic = RocketTopic(cluster.client, "t", "tests")
    assert any_broker.read("t", 0, 0) is None
    send(topic, [b"with a key"], KEYS="k 1", TAGS="x")
    send(topic, [b"without"])
    assert any_broker.end_offset("t", 0) == 2
    records = any_broker.read("t", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == [b"with a key", b"without"]
    assert records.keys is not None
    assert records.keys.to_pylist() == [b"k 1", None]


@pytest.mark.slow
def test_queues_that_came_later_are_told(cluster: Cluster, opens: Opens, folder: Path) -> None:
    broker = opens(folder)
    broker.create_topic("t", 2)
    broker.close()
    cluster.topic(3, name="t")
    broker = opens(folder)
    with pytest.raises(BrokerError, match="queues that are none of its shards: broker-a:2"):
        broker.read("t", 0, 0)


@pytest.mark.slow
def test_a_topic_that_was_deleted_there_is_deleted_here(
    cluster: Cluster, opens: Opens, folder: Path
) -> None:
    broker = opens(folder)
    broker.create_topic("t")
    broker.append("t", 0, [b"v"], timestamp_ms=0, writer="w", epoch=7)
    broker.close()
    delete_topic(cluster.client, "t")
    broker = opens(folder)
    with pytest.raises(BrokerAway, match="no broker of topic 't' is there") as away:
        broker.read("t", 0, 0)
    assert away.value.hint is not None
    assert "delete it here, too" in away.value.hint
    broker.delete_topic("t")
    with pytest.raises(TopicNotFound):
        broker.read("t", 0, 0)
    broker.create_topic("t")
    assert not broker.append("t", 0, [b"new"], timestamp_ms=0, writer="w", epoch=7).duplicate
    records = broker.read("t", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == [b"new"]
