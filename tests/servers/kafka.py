"""A Kafka broker: one node in KRaft mode, from the jars of Maven Central."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.servers.process import ServerProcess, is_open
from tests.servers.setup import Jars

JARS: Final = Jars("kafka")
_JAVA: Final = (
    "java", "-Xms64m", "-Xmx384m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    "-XX:+PerfDisableSharedMem", "-Dlog4j2.configurationFile=log4j2.yaml",
)  # fmt: skip
_LOGGING: Final = """Configuration:
  Appenders:
    Console:
      name: console
      PatternLayout:
        pattern: "%d %p %c: %m%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: console
"""
_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"


class KafkaServer(ServerProcess):
    """A broker that clients reach at `address` without a password, and at those of `listeners`
    (name: security protocol) as `settings` say. Topics are not made by themselves."""

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._listeners = listeners or {}
        self.more_ports = 1 + len(self._listeners)
        super().__init__(folder)
        self._settings = settings or {}
        self._options = options

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def address_of(self, listener: str) -> str:
        """Returns where one of `listeners` is."""
        return f"127.0.0.1:{self.other_ports[1 + list(self._listeners).index(listener)]}"

    def command(self) -> Sequence[str]:
        return [*self._java(), "kafka.Kafka", "server.properties"]

    def prepare(self) -> None:
        java = self._java()
        (self.folder / "log4j2.yaml").write_text(_LOGGING)
        lines = (f"{key}={value}" for key, value in self._properties().items())
        (self.folder / "server.properties").write_text("\n".join(lines))
        form = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", "server.properties"]
        done = subprocess.run(
            [*java, *form, *self._options], cwd=self.folder, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def _java(self) -> list[str]:
        return [*_JAVA, *JARS.java()]

    def ready(self) -> bool:
        return all(map(is_open, [self.port, *self.other_ports]))

    def _properties(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self.other_ports[0]}"
        places = {"PLAINTEXT": self.address}
        places |= {name: self.address_of(name) for name in self._listeners}
        reached = ",".join(f"{name}://{place}" for name, place in places.items())
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **self._listeners}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"{reached},CONTROLLER://{controller}",
            "advertised.listeners": reached,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            # One node has one of everything.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            # A broker that was killed may come back soon.
            "broker.heartbeat.interval.ms": "200",
            "broker.session.timeout.ms": "1000",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "16777216",
            "log.segment.bytes": "67108864",
            "log.retention.ms": "-1",  # records of tests are from 1970
            "message.max.bytes": "20971520",
            **self._settings,
        }
