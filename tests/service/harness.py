"""Real servers for tests, and what users see of them. Nothing here looks behind HTTP, the folder
and the topics."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlengine.client import Client, Refused
from sqlengine.config import Config
from sqlengine.service import Service
from tests.service.answers import checked_answers
from tests.support import PATIENCE_S, ROOT, eventually

_LIVES = itertools.count()
TABLES = """
CREATE TABLE events (id BIGINT, word STRING, amount INT)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
TIMED = """
CREATE TABLE timed (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'timed', 'format' = 'json');
CREATE TABLE counts (n BIGINT, least BIGINT)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json');
"""
WINDOW = """INSERT INTO counts SELECT COUNT(*), MIN(id)
FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"""


def rule(name: str, where: str = "TRUE") -> str:
    """A job that writes (name, id) for every event that it likes."""
    return f"INSERT INTO alerts SELECT '{name}', id FROM events WHERE {where}"


class User:
    """Someone who talks to a server. Every event gets a number; `fired` says which rules gave an
    alert for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._numbers = itertools.count(1)
        self._read: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    # ---- jobs

    def submit(self, name: str, sql: str, **query: object) -> Any:
        return self.client.put(f"/api/v1/jobs/{name}", sql.encode(), **query)

    def try_to(self, work: Callable[[], object]) -> Refused | None:
        """The refusal that it ends with, if it does."""
        try:
            work()
        except Refused as error:
            return error
        return None

    def refused(self, work: Callable[[], object]) -> Refused:
        """The refusal that it ends with."""
        error = self.try_to(work)
        assert error is not None, "it was not refused"
        return error

    def job(self, name: str) -> Any:
        return self.client.get(f"/api/v1/jobs/{name}")

    def jobs(self) -> list[dict[str, Any]]:
        found: Any = self.client.get("/api/v1/jobs")["jobs"]
        return list(found)

    def states(self) -> dict[str, str]:
        return {j["name"]: j["state"] for j in self.jobs()}

    def graph_version(self) -> int:
        text = self.client.get_text("/api/v1/jobs/all/explain")
        return int(text.split("merged into the graph, version ")[1].split()[0])

    def metric(self, name: str) -> float:
        lines = self.client.get_text("/metrics").splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name
        )

    # ---- records

    def topic(self, name: str, shards: int = 1) -> None:
        self.client.post("/api/v1/topics", {"name": name, "shards": shards, "if_not_exists": True})

    def write(self, topic: str, *records: bytes | dict[str, object], shard: int = 0) -> int:
        """Appends, and gives the first offset."""
        lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
        done: Any = self.client.post(
            f"/api/v1/topics/{topic}/records", b"\n".join(lines), shard=shard
        )
        return int(done["first_offset"])

    def read(self, topic: str) -> list[dict[str, Any]]:
        """All records of shard 0, decoded; what was read before is not read again."""
        offset, found = self._read.get(topic, (0, []))
        while True:
            asked: dict[str, object] = {"offset": offset, "limit": 1000}
            body: Any = self.client.get(f"/api/v1/topics/{topic}/records", **asked)
            found += [json.loads(r["value"]) for r in body["records"]]
            if body["next_offset"] == offset:
                self._read[topic] = offset, found
                return found
            offset = body["next_offset"]

    def event(self, word: str | None = None, amount: int | None = None) -> dict[str, object]:
        return {"id": next(self._numbers), "word": word, "amount": amount}

    def fired(self, word: str | None = None, amount: int | None = None) -> set[str]:
        """Writes an event; the rules that gave an alert for it. The job `all` gives one for every
        event, and rows of an epoch become visible together: nothing comes later. More than one
        alert of a rule is an error."""
        event = self.event(word, amount)
        self.write("events", event)
        return self.alerts(event["id"])

    def alerts(self, event: object) -> set[str]:
        def found() -> list[str]:
            rules = [a["rule"] for a in self.read("alerts") if a["id"] == event]
            return rules if "all" in rules else []

        rules = eventually(found, f"an alert of 'all' for event {event}")
        assert len(rules) == len(set(rules)), rules
        return set(rules) - {"all"}

    def letters(self) -> list[dict[str, Any]]:
        return self.read("_dead_letters")

    # ---- the command topic

    def command(self, **command: object) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        identity = f"c{next(self._numbers)}"
        self.write("_commands", {"id": identity, **command})

        def answer() -> dict[str, Any] | None:
            return next((a for a in self.read("_command_results") if a["id"] == identity), None)

        found: dict[str, Any] = eventually(answer, f"the answer to {command}")
        return found

    def prepare(self) -> None:
        """Tables, topics, and the job `all`."""
        for name in ("events", "alerts", "timed", "counts"):
            self.topic(name)
        self.submit("tables", TABLES)
        self.submit("timed", TIMED)
        self.submit("all", rule("all"))


@contextmanager
def running(data: Path, **options: Any) -> Iterator[tuple[Service, User]]:
    """A server in this process, on a free port. Its answers are as they are described."""
    with checked_answers():
        service = Service(Config(data=data, port=0, **options))
        try:
            service.start()
            client = Client(f"http://127.0.0.1:{service.port}", options.get("token"), "rest")
            yield service, User(client)
        finally:
            service.stop()


class Process:
    """`sql serve` as a process of its own."""

    def __init__(
        self,
        data: Path,
        *,
        before: str = "",
        options: str = "",
        wrapper: Sequence[str] = (),
        files: bool = True,
    ) -> None:
        """`before`: Python that the new process runs ahead of the server; `options`: of its Config,
        besides what the command line gives; `wrapper`: the command that starts it; `files`: tables
        may have files beside the data folder."""
        allowed = f", '--files', {str(data.parent)!r}" if files else ""
        self.log = data.parent / f"{data.name}-{next(_LIVES)}.log"
        start = (
            f"{before}\nfrom sqlengine.cli import main\nmain(['serve', '--data', {str(data)!r},"
            f" '--port', '0'{allowed}])"
        )
        if options:
            serve = (
                "from pathlib import Path; from sqlengine.config import Config; from"
                " sqlengine.service import serve"
            )
            start = f"{before}\n{serve}\nserve(Config(data=Path({str(data)!r}), port=0, {options}))"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SQLENGINE_")}
        with self.log.open("wb") as log:
            command = [*wrapper, sys.executable, "-c", start]
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log
            )

    def said(self) -> str:
        """What it logged in this life."""
        return self.log.read_bytes().decode()

    def user(self, when: str = "ready on ") -> User:
        """Waits until it is ready, or until it has said something else that ends with its
        address."""

        def port() -> int | None:
            assert self.process.poll() is None, self.said()
            lines = [line for line in self.said().splitlines() if when in line]
            return int(lines[0].split(when)[1].split(",")[0].rsplit(":", 1)[1]) if lines else None

        return User(Client(f"http://127.0.0.1:{eventually(port, 'the server')}", origin="rest"))

    def end(self, signal: int) -> int:
        """Sends the signal; the exit code."""
        self.process.send_signal(signal)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
