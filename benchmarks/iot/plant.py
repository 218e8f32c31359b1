"""The servers of the plant, and the devices that publish."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.iot.rules import DEVICES, RATE, TABLES, most, payload, reading, rules
from benchmarks.scenarios import topics
from benchmarks.scenarios.beside import Beside
from benchmarks.scenarios.sql_server import Share, SqlServer
from sqlengine.connectors.mqtt.connection import ConnectionLost
from tests.servers.kafka import KafkaServer
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.servers.postgresql import PostgresServer
from tests.servers.process import ServerProcess
from tests.servers.webhook import WebhookServer

# Readings that are published together, and again until the server has confirmed all of them.
TOGETHER = 100


@dataclass(frozen=True)
class Plant:
    """All servers, which run."""

    mqtt: Mosquitto
    kafka: KafkaServer
    postgresql: PostgresServer
    web: WebhookServer
    sql: SqlServer

    @property
    def all(self) -> list[ServerProcess]:
        return [self.sql, self.mqtt, self.kafka, self.postgresql, self.web]

    @property
    def turns(self) -> list[ServerProcess]:
        """Who is killed after whom."""
        others = self.all[1:]
        return [one for other in others for one in (self.sql, other)]


@contextmanager
def plant(folder: Path, share: Share) -> Iterator[Plant]:
    """Starts all servers, with tables, topics and rules."""
    with ExitStack() as stack:
        mqtt = stack.enter_context(Mosquitto(folder / "mqtt", lasting=True, at_once=False))
        kafka = stack.enter_context(KafkaServer(folder / "kafka"))
        postgresql = stack.enter_context(PostgresServer(folder / "postgresql"))
        web = stack.enter_context(WebhookServer(folder / "web"))
        _prepare(kafka, postgresql)
        sql = stack.enter_context(SqlServer(folder / "sql", share))
        found = Plant(mqtt, kafka, postgresql, web, sql)
        sql.submit(_texts(folder / "jobs", found))
        yield found


def connected(postgresql: PostgresServer) -> psycopg.Connection[tuple[object, ...]]:
    """Returns a connection of its own to the database."""
    return psycopg.connect(
        host="127.0.0.1", port=postgresql.port, user="postgres", dbname="postgres", autocommit=True
    )


def _prepare(kafka: KafkaServer, postgresql: PostgresServer) -> None:
    topics.make(kafka.address, {"alerts": 1})
    with connected(postgresql) as connection:
        connection.execute("CREATE TABLE alerts (rule TEXT, id BIGINT, device INT, v FLOAT8)")
        connection.execute("CREATE TABLE devices (device INT PRIMARY KEY, most FLOAT8)")
        for device in range(DEVICES):
            connection.execute("INSERT INTO devices VALUES (%s, %s)", (device, most(device)))


def _texts(folder: Path, servers: Plant) -> Path:
    """Writes the jobs into a folder."""
    folder.mkdir()
    tables = TABLES.format(
        mqtt=servers.mqtt.address,
        postgresql=servers.postgresql.url,
        web=servers.web.url,
        kafka=servers.kafka.address,
    )
    (folder / "tables.sql").write_text(tables)
    for rule in rules():
        (folder / f"{rule.name}.sql").write_text(rule.sql + ";\n")
    return folder


class Devices(Beside):
    """Publish readings at a steady rate, from a thread; `sent`: those below that number are with the
    server. A reading may come twice: what the server has not confirmed is published again."""

    def __init__(self, mqtt: Mosquitto) -> None:
        super().__init__()
        self._mqtt = mqtt
        self.sent = 0
        self.times: list[float] = []  # of each `TOGETHER` readings, when they were published

    def _run(self) -> None:
        start, client = time.time(), None
        while not self._enough.is_set():
            time.sleep(max(0.0, start + self.sent / RATE - time.time()))
            try:
                client = client or MqttClient(self._mqtt.address)
                self._publish(client)
            except (ConnectionLost, OSError):
                if client is not None:
                    client.__exit__()
                client = None
                time.sleep(0.2)
        if client is not None:
            client.__exit__()

    def _publish(self, client: MqttClient) -> None:
        at = time.time()
        found = [r for n in range(self.sent, self.sent + TOGETHER) if (r := reading(n)) is not None]
        for site in range(4):
            payloads = [payload(r) for r in found if r.id % 4 == site]
            client.publish(f"plant/{site}/readings", *payloads)
        self.times.append(at)
        self.sent += TOGETHER
