"""`sql serve --broker` as a process, and what other clients of the cluster write and read."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sqlengine.broker.rocketmq.errors import Refused, RocketAway
from sqlengine.broker.rocketmq.topic import RocketTopic
from tests.connectors.rocketmq.cluster import Cluster, messages, send
from tests.support import PATIENCE_S, ROOT, eventually

TABLES = """
CREATE TABLE {given} (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = '{given}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE {taken} (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = '{taken}', 'format' = 'json', 'key.fields' = 'word');
"""


class Result(msgspec.Struct):
    """The result of a command, as far as tests look at it."""

    id: str
    status: str = ""
    error: dict[str, object] = {}
    jobs: list[dict[str, object]] = []


@dataclass
class Servers:
    """Servers over data folders below `folder`, on one cluster, whose topics of commands begin with
    the name of the folder."""

    cluster: Cluster
    folder: Path

    @contextmanager
    def serve(
        self, name: str, *options: str, commands: str = ""
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a server, which is ready."""
        command = self._command(name, commands or name, *options)
        log = self.folder / f"{name}.log"
        before = log.read_text().count("ready on") if log.exists() else 0
        with log.open("ab") as out:
            process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
        try:
            eventually(lambda: self._is_ready(process, log, before), f"the server {name}")
            yield process
        finally:
            process.kill()
            process.wait()

    def _command(self, name: str, commands: str, *options: str) -> list[str]:
        address = f"rocketmq://{self.cluster.server.address}?commands={commands}"
        return [
            *(sys.executable, "-m", "sqlengine.cli", "serve", "--data", str(self.folder / name)),
            *("--broker", address, "--port", "0", *options),
        ]

    def refused(self, name: str, commands: str) -> str:
        """Starts a server; returns why it does not, or nothing where it does, which is then ended."""
        log = self.folder / f"{name}.refused.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self._command(name, commands), cwd=ROOT, stdout=out, stderr=out
            )
        try:
            eventually(
                lambda: process.poll() is not None or "ready on" in log.read_text(), "an answer"
            )
            return "" if process.poll() is None else log.read_text()
        finally:
            process.kill()
            process.wait()

    def _is_ready(self, process: subprocess.Popen[bytes], log: Path, before: int) -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        return log.read_text().count("ready on") > before

    def log(self, name: str) -> str:
        """What a server has logged, its instances, too."""
        return (self.folder / f"{name}.log").read_text()

    def instance(self, name: str, number: int) -> int:
        """The process of an instance that a server has started last."""
        ready = rf"instance {number} of shared is ready, process ([0-9]+)"
        return int(re.findall(ready, self.log(name))[-1])

    def topic(self, name: str) -> RocketTopic:
        """A topic as another client has it."""
        return RocketTopic(self.cluster.client, name, "tests")

    def send(self, topic: str, ids: Sequence[int], queue: int = 0) -> None:
        """Writes events."""
        send(self.topic(topic), [b'{"id": %d, "word": "w%d"}' % (i, i % 3) for i in ids], queue)

    def rows(self, topic: str) -> list[int]:
        """The ids of what a job has written so far."""
        try:
            found = messages(self.topic(topic))
        except (Refused, RocketAway):
            return []
        return [json.loads(m.body)["id"] for m in found if m.body]

    def wait_for(self, topic: str, rows: int) -> None:
        """Waits until a topic has so many rows."""
        eventually(lambda: len(self.rows(topic)) >= rows, f"{rows} rows of {topic}", 90)

    def send_command(self, server: str, identity: str, **command: object) -> None:
        """Sends a command as a message."""
        body = json.dumps({"id": identity, **command}).encode()
        send(self.topic(f"{server}_commands"), [body])

    def results(self, server: str) -> dict[str, Result]:
        """The results that messages have brought, by id."""
        bodies = [m.body for m in messages(self.topic(f"{server}_command_results"))]
        return {r.id: r for r in (msgspec.json.decode(body, type=Result) for body in bodies)}

    def command(self, server: str, identity: str, **command: object) -> Result:
        """Sends a command as a message; returns the result that a message brings."""
        self.send_command(server, identity, **command)
        answer: Result = eventually(
            lambda: self.results(server).get(identity), f"the result of {identity}"
        )
        return answer

    def copying(self, server: str, given: str, taken: str) -> None:
        """Submits a job that copies a topic, by commands."""
        tables = TABLES.format(given=given, taken=taken)
        for name, sql in (
            ("tables", tables),
            ("copy", f"INSERT INTO {taken} SELECT * FROM {given}"),
        ):
            answer = self.command(server, f"{server}-{name}", op="submit", name=name, sql=sql)
            assert answer.status == "added", answer


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Ends a server; its exit code."""
    process.send_signal(number)
    return process.wait(PATIENCE_S)
