"""The contract of each connector: where its tests are. A connector that is not here fails a test, and so
does one that lacks a test of what it promises.

    python -m tests.connectors.contract.entries

prints all of them."""

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
    """A connector that is read or written. What is not in `elsewhere` is shown by `test_reading.py`
    or `test_writing.py` at each of the places; `elsewhere` has the tests that show it otherwise, as FOLDER/FILE.py::TEST
    below `tests`, or says in words why it has none."""

    connector: str
    direction: Direction
    places: tuple[type[Place], ...] = ()
    elsewhere: Mapping[Property, str] = field(default_factory=dict)


# Connectors with nothing outside, and where their rows are followed through crashes.
WITHIN: Final[Mapping[str, str]] = {
    "blackhole": "keeps nothing",
    "datagen": "recovery/test_kill.py",
    "filesystem": "recovery/test_kill.py",
    "memory": "lives as long as its process",
    "print": "shows rows",
    "python": "a function of the user",
    "topic": "recovery/test_kill.py",
}
_DATABASES: Final = (databases.Sqlite, databases.PostgreSQL, databases.MariaDB)
ENTRIES: Final = (
    Entry(
        "jdbc", "in", _DATABASES,
        {
            "types": "connectors/test_jdbc.py::test_values_come_back",
            "malformed": "connectors/test_jdbc.py::test_a_value_that_the_column_cannot_hold_is_named",
            "reconnect": "a table is read once, when its job begins",
            "back-pressure": "a table is asked for its rows, 'scan.fetch-size' at a time",
            "stops": "connectors/test_jdbc_partitions.py::test_a_reader_goes_on_where_it_was",
            "kills": "connectors/test_jdbc_partitions.py::test_a_server_whose_tasks_read_is_killed",
        },
    ),
    Entry("jdbc", "out", _DATABASES, {"types": "connectors/test_jdbc.py::test_values_come_back"}),
    Entry(
        "kafka", "in", (messages.KafkaTopic,),
        {
            "back-pressure": "connectors/kafka/test_kafka_source.py::test_no_more_is_fetched_than_is_read",
            "kills": "connectors/kafka/test_kafka_jobs.py::test_rows_are_there_once_through_kills",
        },
    ),
    Entry(
        "kafka", "out", (messages.KafkaTopic,),
        {"kills": "connectors/kafka/test_kafka_jobs.py::test_rows_are_there_once_through_kills"},
    ),
    Entry(
        "upsert-kafka", "in", (messages.KafkaUpserts,),
        {"back-pressure": "connectors/kafka/test_kafka_source.py::test_no_more_is_fetched_than_is_read"},
    ),
    Entry("upsert-kafka", "out", (messages.KafkaUpserts,)),
    Entry(
        "rocketmq", "in", (messages.RocketMQTopic,),
        {
            "back-pressure": "connectors/rocketmq/test_reading.py::test_a_source_reads_no_more_ahead_than_it_may",
            "kills": "connectors/rocketmq/test_delivery.py::test_kills_of_the_engine",
        },
    ),
    Entry(
        "rocketmq", "out", (messages.RocketMQTopic,),
        {"kills": "connectors/rocketmq/test_delivery.py::test_kills_of_the_engine"},
    ),
    Entry(
        "mqtt", "in", (messages.MqttTopic,),
        {"kills": "connectors/mqtt/test_kills.py::test_kills_of_the_engine"},
    ),
    Entry(
        "mqtt", "out", (messages.MqttTopic,),
        {"kills": "connectors/mqtt/test_kills.py::test_kills_of_an_engine_that_publishes"},
    ),
    Entry(
        "postgres-cdc", "in", (databases.PostgresChanges,),
        {
            "malformed": "a value that is none of its column's type fails the job",
            "kills": "connectors/test_postgres_cdc.py::test_every_change_counts_once_through_kills",
        },
    ),
    Entry(
        "mysql-cdc", "in", (databases.MariaDBChanges,),
        {
            "types": "connectors/test_mysql_cdc.py::test_a_snapshot_and_then_the_changes",
            "malformed": "a value that is none of its column's type fails the job",
        },
    ),
    Entry(
        "http", "in", (hosts.PolledHost,),
        {"kills": "connectors/http/test_http.py::test_polled_rows_are_there_once_after_many_kills"},
    ),
    Entry(
        "webhook", "out", (hosts.Webhook,),
        {"kills": "connectors/webhook/test_jobs.py::test_no_row_is_lost_through_many_kills"},
    ),
    Entry(
        "http-push", "in", (hosts.Pushed,),
        {
            "reconnect": "clients connect; there is no server outside",
            "kills": "connectors/pushed/test_rows.py::test_rows_that_were_answered_are_there_once_after_many_kills",
        },
    ),
    Entry(
        "otlp", "in", (hosts.Exporter,),
        {
            "types": "connectors/otlp/test_logs.py::test_log_records_become_rows",
            "malformed": "connectors/otlp/test_logs.py::test_requests_that_are_refused",
            "reconnect": "clients connect; there is no server outside",
        },
    ),
    Entry(
        "syslog", "in", (hosts.SyslogIn,),
        {
            "reconnect": "connectors/syslog/test_rsyslog.py::test_senders_go_on_when_either_side_was_killed",
            "kills": "connectors/syslog/test_rsyslog.py::test_senders_go_on_when_either_side_was_killed",
        },
    ),
    Entry(
        "syslog", "out", (hosts.SyslogOut,),
        {"large": "connectors/syslog/test_framing.py::test_a_large_row_is_sent_over_tcp"},
    ),
)  # fmt: skip


def cases(shown: Property, direction: Direction) -> list[ParameterSet]:
    """Returns the places at which `test_reading.py` or `test_writing.py` shows it."""
    return [
        pytest.param(place, id=f"{entry.connector}-{place.__name__}")
        for entry in ENTRIES
        if entry.direction == direction and shown not in entry.elsewhere
        for place in entry.places
    ]


def main() -> None:
    """Prints where each property of each connector is shown."""
    files = {"in": "test_reading.py", "out": "test_writing.py"}
    for entry in ENTRIES:
        print(
            f"{entry.connector}, {entry.direction}: {', '.join(p.__name__ for p in entry.places)}"
        )
        here = f"connectors/contract/{files[entry.direction]}"
        for shown in PROPERTIES:
            print(f"  {shown:<13} {entry.elsewhere.get(shown, here)}")
    for name, why in WITHIN.items():
        print(f"{name}: {why}")


if __name__ == "__main__":
    main()
