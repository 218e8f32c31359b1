"""Every row comes once, whoever dies: the engine, a broker, or both know half of an epoch."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sqlengine.batch import from_pydict
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.messages import Outgoing
from sqlengine.config import Config
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.folder_name import name_writers
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.connectors.rocketmq.delivery import EpochDelivery, Numbered, QueuePart
from sqlengine.connectors.rocketmq.source import RocketSource
from sqlengine.engine import Engine
from sqlengine.system import back_off
from tests.connectors.lives import life
from tests.connectors.rocketmq.cluster import Cluster, await_rows, ids, messages, send, send_ids
from tests.connectors.rocketmq.copying import COPY, TABLES, copying
from tests.connectors.tables import SCHEMA, environment, json_rows, table
from tests.engine.by_hand import die
from tests.support import ROOT, eventually


def part(queue: Queue, numbers: range, *, unsure: bool) -> QueuePart:
    found = (Numbered(Outgoing(json_rows([n])[0]), n) for n in numbers)
    return QueuePart(queue, deque(found), unsure)


def test_a_writer_that_knows_nothing_sends_what_is_missing(cluster: Cluster) -> None:
    """Of an epoch some messages arrived in one queue; the other one has seen a later writer."""
    topic = cluster.topic(2)
    one, two = topic.route().writable
    EpochDelivery(topic, 4, "w", [part(one, range(3), unsure=False)], 1000).run()
    EpochDelivery(topic, 4, "v", [part(two, range(50, 150), unsure=False)], 1 << 20).run()
    again = [part(one, range(5), unsure=True), part(two, range(20, 22), unsure=True)]
    delivery = EpochDelivery(topic, 4, "w", again, 1 << 20)
    delivery.run()
    assert delivery.sent == 4
    everything = [*range(5), *range(50, 150), 20, 21]
    assert [json.loads(m.body)["id"] for m in messages(topic)] == everything
    older = EpochDelivery(topic, 3, "w", [part(one, range(9), unsure=True)], 1 << 20)
    older.run()
    assert older.sent == 0


def test_readers_drop_what_came_again(cluster: Cluster) -> None:
    topic = cluster.topic()
    (queue,) = topic.route().writable
    for numbers in (range(3), range(5), range(1, 2), range(5, 6)):
        EpochDelivery(topic, 4, "w", [part(queue, numbers, unsure=False)], 1 << 20).run()
    send_ids(topic, [2])  # of somebody else
    assert len(messages(topic)) == 11  # all can be read
    assert ids(cluster.options(topic)) == [0, 1, 2, 3, 4, 5, 2]
    source = open_source(table(cluster.options(topic)), environment())
    first = eventually(lambda: source.read("broker-a:0", 0, max_rows=4))
    marks = source.marks()
    source.close()
    later = open_source(table(cluster.options(topic)), environment())
    later.resume({"broker-a:0": first.end}, marks)
    rest = eventually(lambda: later.read("broker-a:0", first.end, max_rows=99))
    assert rest.records is not None
    assert rest.records.to_pylist() == json_rows([3, 4, 5, 2])
    later.close()


def test_a_sink_that_starts_again_adds_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """It is known by its data folder: in another one the same graph is another writer."""
    topic = cluster.topic(3)
    options = cluster.options(topic, keyColumns="id")
    for folder, turn, expected in (("a", 1, 40), ("a", 2, 0), ("b", 1, 40)):
        broker = EmbeddedBroker(tmp_path / folder)
        name_writers(broker, used=False)
        sink = open_sink(table(options), environment(broker))
        assert sink.last_epoch() == (None if turn == 1 else 7)
        numbers = list(range(40))
        sink.write(from_pydict(SCHEMA, {"id": numbers, "name": [None] * 40}))
        assert sink.commit(7) == expected
        assert sink.last_epoch() == 7
        sink.close()
        broker.close()
    assert Counter(ids(options)) == Counter([*range(40)] * 2)


def test_a_sink_that_repeats_several_epochs_adds_what_is_missing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Epochs of one queue, which has the last of them in part."""
    topic = cluster.topic()
    with closing(EmbeddedBroker(tmp_path / "data")) as broker:
        name_writers(broker, used=False)
        options = cluster.options(topic)
        for turn in ("first", "again"):
            sink = open_sink(table(options), environment(broker))
            for epoch in range(1, 6):
                count = 2 if turn == "first" and epoch == 5 else 3
                ids_of_epoch = [10 * epoch + n for n in range(count)]
                sink.write(from_pydict(SCHEMA, {"id": ids_of_epoch, "name": [None] * count}))
                new = count if turn == "first" else epoch // 5
                assert (turn, epoch, sink.commit(epoch)) == (turn, epoch, new)
            sink.close()
    found = [json.loads(m.body)["id"] for m in messages(topic)]
    assert found == [10 * epoch + n for epoch in range(1, 6) for n in range(3)]


@contextmanager
def running(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()


def troubles(engine: Engine) -> list[str | None]:
    """What sources say of themselves: a job whose sink waits may get a graph of its own."""
    running = (g.runner.inputs.running.values() for g in list(engine.graphs.by_name.values()))
    sources = [s.source for each in running for s in list(each)]
    found = (s._source for s in sources if isinstance(s, WalledSource))
    return [s.health.trouble for s in found if isinstance(s, RocketSource)]


@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs go on by themselves: no row is missing, none comes twice, and none of them failed."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)
    taken, given, put = cluster.topic(2), cluster.topic(2), cluster.topic()
    (broker,) = cluster.server.brokers
    with running(copying(tmp_path, cluster.server.address, taken.name, given.name)) as engine:
        engine.broker.create_topic("rows")
        own = "CREATE TABLE {} (id BIGINT, name STRING) WITH ({});"
        topic = "'connector' = 'topic', 'topic' = 'rows', 'format' = 'json'"
        tables = own.format("r", topic) + own.format("put", cluster.sql(put))
        engine.submit("put", f"{tables} INSERT INTO put SELECT id, name FROM r")
        send_ids(taken, range(100))
        eventually(lambda: engine.rows_of("copy") == 100, lambda: engine.job("copy"))
        broker.kill()
        engine.broker.append("rows", 0, json_rows(range(10)), timestamp_ms=0)
        blocked = engine.graph.runner.outputs.uncommitted.sinks_without_space
        eventually(lambda: "table 'put' cannot be written now" in str(blocked().values()))
        eventually(lambda: any(troubles(engine)))
        broker.start()
        send_ids(taken, range(100, 200), queue=1)
        eventually(lambda: len(ids(cluster.options(given))) == 200, lambda: engine.job("copy"))
        eventually(lambda: len(ids(cluster.options(put))) == 10, lambda: engine.job("put"))
        eventually(lambda: not any(troubles(engine)))
        assert not engine.restarts_by_job()
    assert Counter(ids(cluster.options(given))) == Counter(range(200))
    assert ids(cluster.options(put)) == list(range(10))


def test_stopped_started_and_dead(cluster: Cluster, tmp_path: Path) -> None:
    taken, given = cluster.topic(2), cluster.topic(2)
    names = (tmp_path / "data", cluster.server.address, taken.name, given.name)
    engine = copying(*names)
    options = cluster.options(given)
    for turn in range(4):
        send_ids(taken, range(turn * 50, turn * 50 + 50), queue=turn % 2)
        await_rows(options, turn * 50 + 50)
        if turn == 1:
            engine.save_job("copy", stop=True)
            engine.start_job("copy")
        else:
            (die if turn % 2 else Engine.close)(engine)
            engine = copying(*names)
    engine.close()
    assert Counter(ids(options)) == Counter(range(200))


@pytest.mark.parametrize("way", ["apart", "anew", "apart and dead"])
def test_a_job_that_moves_drops_what_came_again(cluster: Cluster, tmp_path: Path, way: str) -> None:
    """It knows what it has seen, whichever graph reads on."""
    taken, given = cluster.topic(), cluster.topic()
    (queue,) = taken.route().writable
    names = (tmp_path / "data", cluster.server.address, taken.name, given.name)
    options = cluster.options(given)
    engine = copying(*names)
    EpochDelivery(taken, 4, "w", [part(queue, range(5), unsure=False)], 1000).run()
    await_rows(options, 5)
    if way == "anew":
        engine.save_job("copy", stop=True)
        engine.start_job("copy")
    else:
        engine.isolate("copy")
    if way == "apart and dead":
        die(engine)
        engine = copying(*names)
    with running(engine):
        EpochDelivery(taken, 4, "w", [part(queue, range(7), unsure=False)], 1000).run()
        await_rows(options, 7)
    assert Counter(ids(options)) == Counter(range(7))


def test_the_example_of_the_page_runs(cluster: Cluster, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "connectors" / "rocketmq.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sql rocketmq\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    orders, large = (cluster.topic(name=name) for name in ("orders", "large_orders"))
    engine = Engine(Config(data=tmp_path))
    engine.submit("orders", block.replace("localhost:9876", cluster.server.address))
    engine.start()
    with running(engine):
        send(orders, [re.findall(r"-p '(.*?)'", page)[0].encode()])
        eventually(lambda: messages(large), lambda: engine.job("orders"))
    assert [m.body.decode() for m in messages(large)] == re.findall(r"BODY: (.*)", page)


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_of_the_engine(cluster: Cluster, tmp_path: Path, kills: int) -> None:
    taken, given = cluster.topic(2), cluster.topic(3)
    job = TABLES.format(address=cluster.server.address, taken=taken.name, given=given.name) + COPY
    chance, sent = random.Random(kills), 0
    for _ in range(kills):
        with life(tmp_path / "data", job):
            for _ in range(chance.randint(1, 12)):
                more = chance.randint(1, 400)
                send_ids(taken, range(sent, sent + more), queue=chance.randint(0, 1))
                sent += more
            time.sleep(chance.uniform(0, 0.4))
    options = cluster.options(given)
    with life(tmp_path / "data", job):
        eventually(lambda: len(ids(options)) >= sent, lambda: (len(ids(options)), sent))
    assert Counter(ids(options)) == Counter(range(sent))
