"""The servers of the plant, and the devices that publish."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.iot.rules import DEVICES, RATE, TABLES, most, payload, reading, rules
from sqlengine.connectors.mqtt.connection import ConnectionLost
from tests.servers.kafka import KafkaServer
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.servers.postgresql import PostgresServer
from tests.servers.process import ServerProcess
from tests.servers.webhook import WebhookServer

ROOT = Path(__file__).resolve().parents[2]
# Readings that are published together, and again until the server has confirmed all of them.
_TOGETHER = 100


class SqlServer(ServerProcess):
    """`sql serve` with the plant's rules, on some cores."""

    name = "sql"

    def __init__(self, folder: Path, cores: Sequence[int]) -> None:
        super().__init__(folder)
        self._cores = cores

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        serve = [sys.executable, "-m", "sqlengine.cli", "serve", "--data", "data"]
        on = ["taskset", "-c", ",".join(map(str, self._cores))]
        return [*on, *serve, "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def submit(self, folder: Path) -> None:
        """Submits the jobs of a folder in one change."""
        command = [
            sys.executable,
            "-m",
            "sqlengine.cli",
            "submit",
            str(folder),
            "--server",
            self.url,
        ]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **self.environment()}
        )

    def peak_mb(self) -> float:
        """The most memory that this life of it has had resident."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

    def cpu_s(self) -> float:
        """CPU seconds of this life."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Plant:
    """All servers, which run."""

    mqtt: Mosquitto
    kafka: KafkaServer
    postgresql: PostgresServer
    web: WebhookServer
    sql: SqlServer


@contextmanager
def plant(folder: Path, cores: Sequence[int]) -> Iterator[Plant]:
    """Starts all servers, with tables, topics and rules."""
    with ExitStack() as stack:
        mqtt = stack.enter_context(Mosquitto(folder / "mqtt", lasting=True, at_once=False))
        kafka = stack.enter_context(KafkaServer(folder / "kafka"))
        postgresql = stack.enter_context(PostgresServer(folder / "postgresql"))
        web = stack.enter_context(WebhookServer(folder / "web"))
        _prepare(kafka, postgresql)
        sql = stack.enter_context(SqlServer(folder / "sql", cores))
        found = Plant(mqtt, kafka, postgresql, web, sql)
        sql.submit(_texts(folder / "jobs", found))
        yield found


def connected(postgresql: PostgresServer) -> psycopg.Connection[tuple[object, ...]]:
    """Returns a connection of its own to the database."""
    return psycopg.connect(
        host="127.0.0.1", port=postgresql.port, user="postgres", dbname="postgres", autocommit=True
    )


def _prepare(kafka: KafkaServer, postgresql: PostgresServer) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for made in admin.create_topics([NewTopic("alerts", 1, 1)]).values():
        made.result()
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


class Devices:
    """Publish readings at a steady rate, from a thread; `sent`: those below that number are with the
    server. A reading may come twice: what the server has not confirmed is published again."""

    def __init__(self, mqtt: Mosquitto) -> None:
        self._mqtt = mqtt
        self.sent = 0
        self.times: list[float] = []  # of each `_TOGETHER` readings, when they were published
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        start, client = time.time(), None
        while not self._enough.is_set():
            time.sleep(max(0.0, start + self.sent / RATE - time.time()))
            try:
                client = client or MqttClient(self._mqtt.address)
                self._publish(client)
            except (ConnectionLost, OSError):
                client = None
                time.sleep(0.2)

    def _publish(self, client: MqttClient) -> None:
        at = time.time()
        found = [
            r for n in range(self.sent, self.sent + _TOGETHER) if (r := reading(n)) is not None
        ]
        for site in range(4):
            payloads = [payload(r) for r in found if r.id % 4 == site]
            client.publish(f"plant/{site}/readings", *payloads)
        self.times.append(at)
        self.sent += _TOGETHER
