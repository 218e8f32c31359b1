"""RocketMQ in and out: rows per CPU second of this process, beside the bare client with the same
messages on the same brokers."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import in_a_process
from benchmarks.page import Section, Table
from sqlengine.broker.rocketmq.admin import create_topic
from sqlengine.broker.rocketmq.client import RocketClient
from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.broker.rocketmq.messages import Outgoing, plain_body, stored
from sqlengine.broker.rocketmq.topic import Pull, RocketTopic
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.servers.process import Missing
from tests.servers.rocketmq import RocketServer

NAME: Final = "connectors_rocketmq"
# Rows, one or many in a message.
_COUNTS: Final = {1: 200_000, 1000: 1_000_000}
QUEUES: Final = 4
_TOGETHER: Final = 1000
# What brokers give at a time, by default and where their operator allows more.
_DEFAULT: Final = 32
_MUCH: Final = 1000
_SETTINGS: Final = {
    "maxTransferCountOnMessageInMemory": str(_MUCH),
    "maxTransferBytesOnMessageInMemory": "4194304",
    "maxTransferCountOnMessageInDisk": str(_MUCH),
    "maxTransferBytesOnMessageInDisk": "4194304",
}
_COLUMNS: Final = "device STRING, v DOUBLE, ts STRING, pad STRING"
_ROCKET: Final = (
    "'connector' = 'rocketmq', 'topic' = '{topic}', 'nameServerAddress' = '{server}', 'format' = 'json',"
    " 'scan.startup.mode' = 'earliest-offset', 'pullBatchSize' = '{pull}', 'rowsPerMessage' = '{rows}'"
)
_IN: Final = f"""
CREATE TABLE readings ({_COLUMNS}) WITH ({_ROCKET});
CREATE TABLE nothing (device STRING, v DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO nothing SELECT device, v FROM readings WHERE v >= 0;
"""
_OUT: Final = f"""
CREATE TABLE numbers ({_COLUMNS})
WITH ('connector' = 'topic', 'topic' = 'numbers', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE readings ({_COLUMNS}) WITH ({_ROCKET});
INSERT INTO readings SELECT * FROM numbers;
"""


def message(number: int) -> bytes:
    """A reading of 150 bytes."""
    text = b'{"device":"d%03d","v":%d.5,"ts":"2026-01-01 00:00:00","pad":"%s"}'
    return text % (number % 1000, number % 100, b"x" * 80)


# ---- what runs in processes of its own -----------------------------------------------------------


def client_out(server: str, topic: str, pull: int, rows: int) -> float:
    """Sends all messages, 1,000 in a request; returns CPU seconds."""
    with RocketClient(server) as client:
        found = RocketTopic(client, topic, "bare")
        queues = found.route().writable
        begin = time.process_time()
        for at in range(0, _COUNTS[rows], _TOGETHER):
            queue = queues[at // _TOGETHER % len(queues)]
            messages = [Outgoing(message(n)) for n in range(at, at + _TOGETHER)]
            client.wait(found.send(queue, messages), queue.broker, "to send")
        return time.process_time() - begin


def client_in(server: str, topic: str, pull: int, rows: int) -> float:
    """Pulls all messages, one request after the other; returns CPU seconds."""
    with RocketClient(server) as client:
        found, count = RocketTopic(client, topic, "bare"), 0
        begin = time.process_time()
        for queue in found.route().readable:
            at, end = 0, found.end(queue)
            while at < end:
                asked = found.pull(queue, Pull(at, pull, 4 << 20))
                answer = client.answer(asked, queue.broker)
                count += len([plain_body(m) for m in stored(answer.body)])
                at = answer.number("nextBeginOffset")
        assert count == _COUNTS[rows], count
        return time.process_time() - begin


def engine_in(server: str, topic: str, pull: int, rows: int) -> float:
    """Runs a job that reads all messages; returns CPU seconds of all that the process does."""
    text = _IN.format(server=server, topic=topic, pull=pull, rows=rows)
    with tempfile.TemporaryDirectory() as folder, _engine(Path(folder)) as engine:
        # Like the one that is measured, but for its rows: what comes once has come then.
        engine.submit("warm", text.replace("earliest-offset", "latest-offset"))
        begin = time.process_time()
        engine.submit("j", text.replace("readings", "again").replace("nothing", "nowhere"))
        _until(lambda: engine.rows_of("j") >= _COUNTS[rows])
        return time.process_time() - begin


def engine_out(server: str, topic: str, pull: int, rows: int) -> float:
    """Runs a job that sends all rows of a topic; returns CPU seconds."""
    begin = 0.0
    with tempfile.TemporaryDirectory() as folder:
        with _engine(Path(folder)) as engine:
            engine.broker.create_topic("numbers")
            for at in range(0, _COUNTS[rows], 10_000):
                values = [message(n) for n in range(at, at + 10_000)]
                engine.broker.append("numbers", 0, values, timestamp_ms=0)
            begin = time.process_time()
            engine.submit("j", _OUT.format(server=server, topic=topic, pull=pull, rows=rows))
            _until(lambda: engine.rows_of("j") >= _COUNTS[rows])
        # It has closed, so all is committed.
        return time.process_time() - begin


@contextmanager
def _engine(folder: Path) -> Iterator[Engine]:
    engine = Engine(Config(data=folder))
    engine.start()
    yield engine
    engine.close()


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


# ---- the section ---------------------------------------------------------------------------------

# Rows of a message, and messages that are pulled at a time.
_CASES: Final = ((1, _DEFAULT), (1, _MUCH), (1000, _DEFAULT))


def run() -> Section:
    """Measures each case beside the bare client."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = RocketServer(Path(folder) / "rocketmq", settings=_SETTINGS).start()
        except Missing as error:
            raise SystemExit(str(error)) from None
        try:
            rows = [row for case in _CASES for row in _measured(server, *case)]
        finally:
            server.kill()
    about = (
        f"{_COUNTS[1]:,} rows ({_COUNTS[1000]:,} where many share a message) of 150 bytes of JSON in {QUEUES}"
        " queues of a broker on the same machine. In: decoded,"
        " one filter, exactly once. Out: read from a topic of this server, with epochs and numbers as properties."
        " Brokers give 32 messages at a time unless they are told otherwise."
    )
    columns = ["direction", "rows a message", "messages a pull", "a job", "the bare client"]
    table = Table("RocketMQ, rows per CPU second", columns, rows)
    return Section(NAME, "RocketMQ", about, [table])


def _measured(server: RocketServer, packed: int, pull: int) -> list[list[str]]:
    topic = f"t{packed}x{pull}"
    with server.client() as client:
        for name in (topic, f"{topic}bare"):
            create_topic(client, name, QUEUES)
            _until(partial(_is_there, client, name))

    def rate(who: str, name: str) -> str:
        took = in_a_process(
            "benchmarks.connectors.rocketmq", who, server.address, name, pull, packed
        )
        return f"{_COUNTS[packed] / float(took):,.0f}"

    bare = packed == 1
    out = rate("engine_out", topic), rate("client_out", f"{topic}bare") if bare else ""
    back = rate("engine_in", topic), rate("client_in", topic) if bare else ""
    case = [f"{packed:,}", f"{pull:,}"]
    return [["out", *case, *out], ["in", *case, *back]]


def _is_there(client: RocketClient, topic: str) -> bool:
    try:
        return len(client.route(topic).writable) == QUEUES
    except RocketError:  # the name server has not heard of it yet
        return False


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:4], *map(int, sys.argv[4:6]))))
