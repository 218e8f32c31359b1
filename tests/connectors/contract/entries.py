"""The contract of each connector: where its tests are. A connector that is not here fails a test, and so
does one that lacks a test of what it promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

import pytest
from _pytest.mark import ParameterSet

from tests.connectors.contract import databases, hosts, messages
from tests.connectors.contract.place import Direction, Place, Property

PROPERTIES: Final[tuple[Property, ...]] = get_args(Property)


@dataclass(frozen=True)
class Entry:
    """A connector that is read or written. What is not in `elsewhere` is shown by `test_contract.py`
    at each of the places; `elsewhere` has the tests that show it otherwise, as FOLDER/FILE.py::TEST
    below `tests`, or says in words why it has none."""

    connector: str
    direction: Direction
    places: tuple[type[Place], ...] = ()
    elsewhere: Mapping[Property, str] = field(default_factory=dict)


ENTRIES: Final = (
    Entry("jdbc", "out", (databases.Sqlite, databases.PostgreSQL, databases.MariaDB)),
    Entry("jdbc", "in", (databases.Sqlite, databases.PostgreSQL, databases.MariaDB)),
    Entry("kafka", "in", (messages.KafkaTopic,)),
    Entry("kafka", "out", (messages.KafkaTopic,)),
    Entry("upsert-kafka", "in", (messages.KafkaUpserts,)),
    Entry("upsert-kafka", "out", (messages.KafkaUpserts,)),
    Entry("rocketmq", "in", (messages.RocketMQTopic,)),
    Entry("rocketmq", "out", (messages.RocketMQTopic,)),
    Entry("mqtt", "in", (messages.MqttTopic,)),
    Entry("mqtt", "out", (messages.MqttTopic,)),
    Entry("postgres-cdc", "in", (databases.PostgresChanges,)),
    Entry("mysql-cdc", "in", (databases.MariaDBChanges,)),
    Entry("http", "in", (hosts.PolledHost,)),
    Entry("webhook", "out", (hosts.Webhook,)),
    Entry("http-push", "in", (hosts.Pushed,)),
    Entry("otlp", "in", (hosts.Exporter,)),
    Entry("syslog", "in", (hosts.SyslogIn,)),
    Entry("syslog", "out", (hosts.SyslogOut,)),
)


def cases(shown: Property, direction: Direction) -> list[ParameterSet]:
    """Returns the places at which `test_contract.py` shows it."""
    return [
        pytest.param(place, id=f"{entry.connector}-{place.__name__}")
        for entry in ENTRIES
        if entry.direction == direction and shown not in entry.elsewhere
        for place in entry.places
    ]
