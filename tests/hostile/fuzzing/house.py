"""A server under attack, and the job beside: each number that is written to `fed` comes out of
`seen` once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any, Self

import psutil

from sqlengine.client import Client
from tests.service.harness import Process
from tests.support import eventually

WITNESS = """
CREATE TABLE fed (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'fed', 'format' = 'json');
CREATE TABLE seen (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
INSERT INTO seen SELECT n FROM fed;
"""
# What the server may hold at most, with attacks that come to its limits (bytes).
MEMORY = 3 << 30


class House:
    """A server with its witness. `lives`: how often it was started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = 0
        self._found: list[int] = []
        self.fed = 0
        self.lives = 0
        self._logs: list[Path] = []
        self._start()
        for topic in ("fed", "seen"):
            self.user.topic(topic)
        self.user.submit("witness", WITNESS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__()

    @property
    def client(self) -> Client:
        return self.user.client

    @property
    def port(self) -> int:
        return int(self.client.server.rsplit(":", 1)[1])

    def again(self, random: Random) -> None:
        """Ends the server, cleanly or by a kill, and starts it on the same folder."""
        how = random.choice((signal.SIGTERM, signal.SIGKILL))
        code = self._process.end(how)
        assert code == (0 if how == signal.SIGTERM else -how), f"SIGTERM ended with {code}"
        self._start()

    def check(self) -> None:
        """AssertionError unless the witness is exact, and the server sound."""
        numbers = range(self.fed, self.fed + 20)
        self.user.write("fed", *(json.dumps({"n": n}).encode() for n in numbers))
        self.fed = numbers.stop
        eventually(lambda: len(self._seen()) >= self.fed, lambda: f"{len(self._seen())} {self.fed}")
        assert self._seen() == list(range(self.fed)), "rows of the witness were lost or doubled"
        assert self.client.get_text("/healthz")
        memory = psutil.Process(self._process.process.pid).memory_info().rss
        assert memory < MEMORY, f"the server takes {memory >> 20} MiB"
        for path in self._logs:
            text = path.read_text(errors="replace")
            for word in ("Traceback (most recent", "internal error"):
                assert word not in text, text[max(0, text.index(word) - 2000) :][:6000]

    def _seen(self) -> list[int]:
        while True:
            asked: dict[str, object] = {"offset": self._read, "limit": 1000}
            body: Any = self.client.get("/api/v1/topics/seen/records", **asked)
            self._found += [json.loads(r["value"])["n"] for r in body["records"]]
            if body["next_offset"] == self._read:
                return self._found
            self._read = body["next_offset"]

    def _start(self) -> None:
        self.lives += 1
        self._process = Process(self._folder / "data", files=False)
        self._logs.append(self._process.log)
        self.user = self._process.user()
