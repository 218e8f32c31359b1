"""A server killed again and again while processes write, read and copy: each record exactly once,
in order."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path

import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError, BrokerUnreachable, Fenced
from sqlengine.broker.ownership import Membership
from sqlengine.broker.remote.client import RemoteBroker, connect
from tests.support import PATIENCE_S, ROOT, eventually

SERVER = """
import sys, threading
from flask import Flask
from sqlengine.api.broker import broker_blueprint
from sqlengine.api.server import HttpServer
from sqlengine.broker.embedded import EmbeddedBroker

app = Flask("broker")
app.register_blueprint(broker_blueprint(EmbeddedBroker(sys.argv[1], segment_bytes=20_000, fsync=sys.argv[2])))
server = HttpServer(app, "127.0.0.1", 0)
server.start()
print(server.port, flush=True)
threading.Event().wait()
"""
SHARDS, BATCHES = 3, 150


class Lives:
    """A server that is started again after each kill, on another port."""

    def __init__(self, folder: Path, fsync: str) -> None:
        self._command = [sys.executable, "-c", SERVER, str(folder), fsync]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.server = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def use(self, work: Callable[[RemoteBroker], object]) -> None:
        """Does the work again, with the next server, for as long as it gets no answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            broker = connect(self.server)
            try:
                work(broker)
                return
            except BrokerUnreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            finally:
                broker.close()


def _append(shard: int, number: int, values: list[bytes], broker: Broker) -> None:
    broker.append("in", shard, values, timestamp_ms=0, writer=f"p{shard}", epoch=number)


def produce(lives: Lives, shard: int) -> None:
    for number in range(BATCHES):
        lives.use(
            partial(
                _append, shard, number, [b"%d-%d-%d" % (shard, number, row) for row in range(4)]
            )
        )


def copy_on(lives: Lives, name: str, done: threading.Event) -> None:
    """A member: copies what its shards of `in` hold to the same of `out`. The output remembers how
    far it is, as the epoch of the shard's writer, and the fence keeps out who has lost the
    shard."""
    while not done.is_set():
        broker = connect(lives.server)
        try:
            mine = broker.join("g", name, ["in"], session_ms=2000)
            while not done.is_set():
                for shard in mine.shards.get("in", ()):
                    copy_shard(broker, mine, shard)
                broker.wait_for_data(0.05)
                mine = broker.heartbeat("g", name, mine.generation)
        except (BrokerUnreachable, Fenced):
            time.sleep(0.02)
        finally:
            broker.close()


def copy_shard(broker: Broker, mine: Membership, shard: int) -> None:
    at = broker.last_epoch("out", shard, f"copy-{shard}") or 0
    records = broker.read("in", shard, at, max_records=7)
    if records is not None:
        fence = mine.fence("in", shard)
        end = records.next_offset
        broker.append(
            "out",
            shard,
            records.values,
            timestamp_ms=0,
            writer=f"copy-{shard}",
            epoch=end,
            fence=fence,
            compression="lz4",
        )
        broker.commit("g", "in", {shard: end}, fence=fence)


def copied(lives: Lives) -> int:
    """How many records `out` has."""
    seen: list[int] = []
    lives.use(lambda broker: seen.append(sum(broker.topic("out").end)))
    return seen[-1]


def _has_copied(lives: Lives, least: int) -> bool:
    return copied(lives) >= least


@pytest.mark.slow
@pytest.mark.parametrize("fsync", ["none", "epoch"])
def test_nothing_is_lost_and_nothing_doubled_whatever_dies(tmp_path: Path, fsync: str) -> None:
    lives = Lives(tmp_path / "data", fsync)
    for topic in ("in", "out"):
        lives.use(methodcaller("create_topic", topic, SHARDS, if_not_exists=True))
    done, away = threading.Event(), threading.Event()
    threads = [threading.Thread(target=produce, args=(lives, shard)) for shard in range(SHARDS)]
    threads += [
        threading.Thread(target=copy_on, args=(lives, f"member-{n}", done)) for n in range(2)
    ]
    leaver = threading.Thread(target=copy_on, args=(lives, "leaver", away))
    for thread in [*threads, leaver]:
        thread.start()
    whole = SHARDS * BATCHES * 4
    for life in range(1, 5):
        eventually(partial(_has_copied, lives, whole * life // 5))
        if life == 3:
            away.set()  # it falls silent, and others take its shards
        lives.kill()
        lives.start()
    eventually(lambda: copied(lives) >= whole)
    done.set()
    for thread in [*threads, leaver]:
        thread.join()
    broker = connect(lives.server)
    for shard in range(SHARDS):
        expected = [
            b"%d-%d-%d" % (shard, number, row) for number in range(BATCHES) for row in range(4)
        ]
        for topic in ("in", "out"):
            records = broker.read(topic, shard, 0, until=len(expected))
            assert records is not None
            assert records.values.to_pylist() == expected
            assert broker.end_offset(topic, shard) == len(expected)
    assert broker.committed("g", "in").keys() == set(range(SHARDS))
    with pytest.raises(BrokerError):
        broker.append(
            "out",
            0,
            [b"late"],
            timestamp_ms=0,
            fence=Membership("g", "leaver", 1, {}).fence("in", 0),
        )
    broker.close()
    lives.kill()
