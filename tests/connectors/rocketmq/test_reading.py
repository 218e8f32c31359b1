"""Tables over topics of a real RocketMQ are read: from where to where the options say, and every range
again as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from parser.errors import ExecutionError, OptionError, PlanError, UnsupportedError
from parser.types import (
    BIGINT,
    BYTES,
    DataType,
    Schema,
)  # fmt: skip
from planner.catalog import Table
from planner.graph.distribution import SubtaskAssignment
from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.broker.rocketmq.messages import Outgoing, packed_body
from sqlengine.broker.rocketmq.topic import RocketTopic
from sqlengine.connectors.base import Source
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.connectors.rocketmq import source as sources
from sqlengine.connectors.rocketmq import troubles
from sqlengine.connectors.rocketmq.connector import RocketConnector
from sqlengine.connectors.rocketmq.source import RocketSource
from tests.connectors.rocketmq.cluster import Cluster, messages, rows, send, send_ids
from tests.connectors.tables import environment, json_rows, table
from tests.support import eventually


def all_of(source: Source) -> list[bytes]:
    """All records, once they have come, each read again as a replay does."""
    ends = {s: source.end(s) for s in source.shards()}
    found: list[bytes] = []
    for shard, end in ends.items():
        at = source.start(shard)
        while at < (end or 0):
            chunk = eventually(partial(source.read, shard, at, max_rows=7))
            again = source.read(shard, at, max_rows=1, until=chunk.end)
            assert again is not None
            assert again.records is not None
            assert chunk.records is not None
            assert again.records.equals(chunk.records)
            assert chunk.num_rows <= 7
            found += chunk.records.to_pylist()
            at = chunk.end
    return found


def test_where_a_new_job_begins(cluster: Cluster) -> None:
    topic = cluster.topic()
    send_ids(topic, [1, 2])
    between = int(time.time() * 1000)
    while int(time.time() * 1000) <= between + 1:
        time.sleep(0.001)
    send_ids(topic, [3, 4])
    (queue,) = topic.route().readable
    assert len(messages(topic)) == 4  # a group is made by its first pull
    topic.client.wait(topic.commit(queue, 3), queue.broker, "to commit")
    at = str(between + 1)
    text = datetime.fromtimestamp(between / 1000 + 3601, UTC).strftime("%Y-%m-%d %H:%M:%S")
    for options, begin in (
        ({"scan.startup.mode": "latest-offset"}, 4),
        ({}, 0),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": at}, 2),
        ({"startTimeMs": at}, 2),
        ({"startTime": text, "timeZone": "UTC"}, 4),
        ({"startTime": text, "timeZone": "Etc/GMT-2"}, 0),
        ({"startMessageOffset": "1"}, 1),
        ({"scan.startup.mode": "group-offsets", "consumerGroup": "tests"}, 3),
        ({"scan.startup.mode": "group-offsets", "consumerGroup": "others"}, 4),
    ):
        source = open_source(table(cluster.options(topic, **options)), environment())
        assert [source.start(s) for s in source.shards()] == [begin], options
        source.close()


def test_a_bounded_table_ends_where_it_ended(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    send_ids(topic, range(30))
    options = cluster.options(topic, **{"scan.bounded.mode": "latest-offset"})
    source = open_source(table(options), environment())
    send_ids(topic, [99])
    send_ids(topic, [98], queue=1)
    assert all_of(source) == json_rows(range(30))
    assert source.bounded
    assert [source.read(s, source.end(s) or 0, max_rows=9) for s in source.shards()] == [None, None]
    assert [row["id"] for row in rows(options | {"endTime": "2001-01-01 00:00:00"})] == []
    source.close()


def test_the_filter_leaves_holes(cluster: Cluster) -> None:
    topic = cluster.topic()
    for i in range(12):
        send_ids(topic, [i], TAGS="abc"[i % 3], size=str(i))
    for option, wanted in (
        ({"tag": "a || c"}, [i for i in range(12) if i % 3 != 1]),
        ({"sql": "size > 9 OR TAGS = 'b' AND size < 5"}, [1, 4, 10, 11]),
        ({"tag": "nothing"}, []),
    ):
        source = open_source(
            table(cluster.options(topic, **option, **{"scan.bounded.mode": "latest-offset"})),
            environment(),
        )
        assert all_of(source) == json_rows(wanted)
        source.close()


def test_new_queues_are_read_from_their_beginning(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    options = {"partitionDiscoveryIntervalMs": "100", "scan.startup.mode": "latest-offset"}
    source = open_source(table(cluster.options(topic, **options)), environment())
    assert source.shards() == ["broker-a:0"]
    cluster.topic(2, name=topic.name)
    send_ids(topic, [1], queue=1)
    eventually(lambda: source.shards() == ["broker-a:0", "broker-a:1"])
    chunk = eventually(lambda: source.read("broker-a:1", 0, max_rows=9))
    assert (chunk.num_rows, chunk.end) == (1, 1)
    source.close()


def test_parts_of_a_graph_share_the_queues(cluster: Cluster) -> None:
    """A part without a queue ends; a queue that it would have had later is an error, not a loss."""
    topic = cluster.topic(3)
    options = cluster.options(topic, partitionDiscoveryIntervalMs="100")

    def parts(count: int) -> list[Source]:
        shares = [SubtaskAssignment(n, count) for n in range(count)]
        found = [replace(environment(), assignment=share) for share in shares]
        return [RocketConnector().source(table(options), each) for each in found]

    two, four = parts(2), parts(4)
    names = [f"broker-a:{n}" for n in range(3)]
    assert sorted(shard for source in two for shard in source.shards()) == names
    assert sorted(len(source.shards()) for source in four) == [0, 1, 1, 1]
    assert [source.bounded for source in two] == [False, False]
    assert [source.bounded for source in four] == [not source.shards() for source in four]
    cluster.topic(4, name=topic.name)
    eventually(lambda: sum(len(source.shards()) for source in two) == 4)

    def looks() -> bool:
        next(source for source in four if not source.bounded).shards()
        return False

    with pytest.raises(ExecutionError, match="has got queue 'broker-a:3', which no part"):
        eventually(looks)
    for source in (*two, *four):
        source.close()


def test_offsets_are_published_for_the_group(cluster: Cluster) -> None:
    topic = cluster.topic()
    send_ids(topic, range(5))
    source = open_source(table(cluster.options(topic, consumerGroup="published")), environment())
    eventually(lambda: source.read("broker-a:0", 0, max_rows=3))
    source.notify_checkpoint({"broker-a:0": 3})
    own = RocketTopic(cluster.client, topic.name, "published")
    eventually(lambda: own.committed(topic.route().readable[0]) == 3)
    source.close()


def test_messages_that_are_gone_are_an_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic()
    send_ids(topic, [1])
    for module in (sources, troubles):
        monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    source = open_source(table(cluster.options(topic)), environment())
    assert source.expired("broker-a:0", 1) is None
    assert "ends at 1: it was made anew" in (source.expired("broker-a:0", 7) or "")

    def read() -> bool:
        source.read("broker-a:0", 7, max_rows=1)
        return False

    with pytest.raises(RocketError, match="are gone"):
        eventually(read)
    with pytest.raises(RocketError, match="are gone"):
        source.read("broker-a:0", 0, max_rows=1, until=2)
    source.close()


def test_a_source_reads_no_more_ahead_than_it_may(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic()
    send(topic, [b"x" * 10_000] * 500)
    monkeypatch.setattr(sources, "_QUEUE_BYTES", (1 << 20, 1 << 20))
    declared = table(cluster.options(topic, pullBatchSize="8"))
    source = RocketConnector().source(declared, environment())
    assert isinstance(source, RocketSource)
    eventually(lambda: source.read("broker-a:0", 0, max_rows=1))
    (fetcher,) = source._fetchers.values()
    eventually(lambda: fetcher.waiting_bytes >= 1 << 20)
    time.sleep(0.2)
    assert fetcher.waiting_bytes < (1 << 20) + 9 * 10_200
    source.close()


ERRORS: list[tuple[dict[str, str], type[Exception], str]] = [
    ({"topic": "missing"}, RocketError, "topic 'missing' of table 't' does not exist"),
    (
        {"nameServerAddress": "127.0.0.1:1"},
        RocketError,
        "RocketMQ at 127.0.0.1:1 cannot be reached",
    ),
    ({"sql": "size >> ("}, RocketError, "RocketMQ refuses the condition 'size >> \\('"),
    ({"tag": "a", "sql": "b = 1"}, OptionError, "'tag' and 'sql' of table 't' exclude each other"),
    ({"scan.startup.mode": "timestamp"}, PlanError, "needs the option 'scan.startup.timestamp"),
    ({"scan.startup.mode": "group-offsets"}, PlanError, "needs the option 'consumerGroup'"),
    ({"scan.bounded.mode": "timestamp"}, PlanError, "needs the option 'scan.bounded.timestamp"),
    ({"accessKey": "me"}, OptionError, "needs the option 'secretKey'"),
    (
        {"tls.enable": "true", "tls.client.certPath": "/no"},
        PlanError,
        "certificate or key of table",
    ),
    ({"timeZone": "Nowhere"}, OptionError, "bad value 'Nowhere' for option 'timeZone'"),
]
SINK_ERRORS: list[tuple[dict[str, str], type[Exception], str]] = [
    ({"keyColumns": "idd"}, OptionError, "'keyColumns' of table 't' names no column 'idd'"),
    ({"isDynamicTag": "true"}, OptionError, "needs the option 'dynamicTagColumn'"),
    ({"keyColumns": "id,name", "writeKeysToBody": "false"}, OptionError, "is left for the body"),
    ({"rowsPerMessage": "9", "delay": "1 s"}, OptionError, "of table 't' cannot share messages"),
]


def test_options_that_are_wrong(cluster: Cluster) -> None:
    topic = cluster.topic()
    opened: list[
        tuple[Callable[[Table], object], list[tuple[dict[str, str], type[Exception], str]]]
    ]
    opened = [
        (lambda t: open_source(t, environment()), ERRORS),
        (lambda t: open_sink(t, environment()), SINK_ERRORS),
    ]
    for opens, cases in opened:
        for options, kind, words in cases:
            with pytest.raises(kind, match=words):
                opens(table(cluster.options(topic) | options))
    without = {k: v for k, v in cluster.options(topic).items() if k != "nameServerAddress"}
    with pytest.raises(OptionError, match="needs the option 'nameServerAddress'"):
        open_source(table(without), environment())
    found = open_source(
        table({**without, "endpoints": f"127.0.0.1:1;{cluster.server.address}"}), environment()
    )
    assert found.shards() == ["broker-a:0"], "the first one is away, the second one answers"
    found.close()
    offset: dict[str, DataType] = {"offset": BIGINT}
    with pytest.raises(UnsupportedError, match=r"'m_offset' .* cannot be written"):
        open_sink(table(cluster.options(topic), metadata=offset, virtual=False), environment())


def test_small_messages_that_unpack_to_gigabytes_come_a_few_at_a_time(cluster: Cluster) -> None:
    """40 messages of 8 KB are 320 MB: a chunk has no more than a few of them, and all come once."""
    topic = cluster.topic()
    plain = b"\0" * (8 << 20)
    body, flags = packed_body(plain, codes.ZLIB)
    target = topic.route().writable[0]
    for _ in range(40):
        asked = topic.send(target, [Outgoing(body, "", flags)])
        topic.client.wait(asked, target.broker, "to send")
    topic.client.settle(target.broker)
    options = cluster.options(topic, **{"format": "raw", "scan.bounded.mode": "latest-offset"})
    source = open_source(table(options, Schema.of(v=BYTES)), environment())
    (shard,) = source.shards()
    at, sizes = 0, list[int]()
    while at < 40:
        chunk = eventually(partial(source.read, shard, at, max_rows=1000))
        assert chunk.records is not None
        sizes += [len(v) for v in chunk.records.to_pylist()]
        assert chunk.records.nbytes < 30 << 20
        again = source.read(shard, at, max_rows=1, until=chunk.end)
        assert again is not None
        assert again.records == chunk.records
        at = chunk.end
    source.close()
    assert sizes == [len(plain)] * 40
