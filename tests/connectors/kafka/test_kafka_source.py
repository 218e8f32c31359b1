"""Reading topics of Kafka: where reading begins and ends, holes of transactions, keys and metadata, and
that a range is the same whenever it is read."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import pytest
from confluent_kafka import Producer

from parser.errors import ExecutionError, OptionError, PlanError
from parser.types import BIGINT, BYTES, INT, STRING, DataType, map_of, timestamp_ltz
from planner.graph.distribution import SubtaskAssignment
from sqlengine.batch import RowKind
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.kafka.connector import KafkaConnector
from sqlengine.connectors.kafka.source import KafkaSource
from sqlengine.connectors.kafka.topics import Discovery, Partition
from sqlengine.connectors.registry import open_source
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.tables import environment, json_rows, table
from tests.support import eventually

BOUNDED = {"scan.bounded.mode": "latest-offset"}


@contextmanager
def opened(
    kafka: Kafka,
    topic: str,
    more: dict[str, str] | None = None,
    metadata: dict[str, DataType] | None = None,
) -> Iterator[Source]:
    source = open_source(table(kafka.options(topic, more), metadata=metadata), environment())
    try:
        yield source
    finally:
        source.close()


def chunks(source: Source, most: int = 1000) -> list[Chunk]:
    """All chunks of a bounded source up to its end, each the same when its range is read again."""
    found = []
    for shard in source.shards():
        at = source.start(shard)
        while at < (source.end(shard) or 0):
            chunk = eventually(partial(source.read, shard, at, max_rows=most), "a chunk")
            assert (chunk.shard, chunk.start) == (shard, at)
            assert chunk.num_rows <= most
            found.append(chunk)
            at = chunk.end
    for chunk in found:
        again = source.read(chunk.shard, chunk.start, max_rows=1, until=chunk.end)
        assert again is not None
        assert again.end == chunk.end
        assert again.records == chunk.records
        assert again.metadata == chunk.metadata
    return found


def values(found: list[Chunk]) -> list[bytes]:
    return [v for c in found if c.records is not None for v in c.records.to_pylist()]


def test_all_records_of_all_partitions_and_topics(kafka: Kafka) -> None:
    first, second = kafka.topic(3), kafka.topic(1)
    sent = [Record(v, partition=n % 3) for n, v in enumerate(json_rows(range(60)))]
    kafka.write(first, sent)
    kafka.write(second, json_rows(range(60, 63)))
    with opened(kafka, f"{first}; {second}", BOUNDED) as source:
        assert source.shards() == [f"{first}-0", f"{first}-1", f"{first}-2", f"{second}-0"]
        found = chunks(source, 7)
    assert sorted(values(found)) == sorted(json_rows(range(63)))
    by_shard = values([c for c in found if c.shard == f"{first}-1"])
    assert by_shard == json_rows(range(1, 60, 3))


def test_holes_of_transactions_are_ends_of_chunks(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.transaction(topic, [b"1", b"2"])
    kafka.transaction(topic, [b"no"], commit=False)
    kafka.transaction(topic, [b"3"])
    kafka.transaction(topic, [b"no"], commit=False)
    with opened(kafka, topic, BOUNDED) as source:
        assert source.end(f"{topic}-0") == 9  # records and what ends transactions
        found = chunks(source, 2)
        assert values(found) == [b"1", b"2", b"3"]
        assert found[-1].end == 9
        offsets = [o for c in found if c.offsets is not None for o in c.offsets.tolist()]
        assert offsets == [0, 1, 5]
        # A bound may be anywhere, also where nothing is.
        part = source.read(f"{topic}-0", 2, max_rows=1, until=4)
        assert part is not None
        assert (part.num_rows, part.end) == (0, 4)
    with opened(
        kafka, topic, {**BOUNDED, "properties.isolation.level": "read_uncommitted"}
    ) as source:
        assert values(chunks(source)) == [b"1", b"2", b"no", b"3", b"no"]


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        ({}, 4),
        ({"scan.startup.mode": "earliest-offset"}, 0),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "2000"}, 2),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "9000"}, 4),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:1",
            },
            1,
        ),
        ({"properties.group.id": "known"}, 3),
        ({"properties.group.id": "unknown"}, 4),
        ({"properties.group.id": "unknown", "properties.auto.offset.reset": "earliest"}, 0),
    ],
)
def test_where_a_new_job_begins(
    kafka: Kafka, four: str, options: dict[str, str], begin: int
) -> None:
    given = {k: v for k, v in kafka.options(four).items() if not k.startswith("scan.")}
    source = open_source(table(given | options), environment())
    assert [source.start(s) for s in source.shards()] == [begin]
    assert not source.bounded
    source.close()


@pytest.mark.parametrize(
    ("offsets", "begin", "message"),
    [
        ("partition:0,offset:5", 5, None),  # exactly at the end
        ("partition:0,offset:0", 0, None),  # whatever is there first
        ("partition:0,offset:6", None, "cannot begin at offset 6 of partition '.*-0', which ends at 5"),
        ("partition:0,offset:1", None, "cannot begin at offset 1 .*, which begins at 2 by now"),
        ("partition:0,offset:3;partition:7,offset:0", None, "names partition 7 in .*, which topic"),
    ],
)  # fmt: skip
def test_offsets_that_are_named_are_there(
    kafka: Kafka, two_to_five: str, offsets: str, begin: int | None, message: str | None
) -> None:
    """What Kafka's client would do with others is to begin somewhere else, silently."""
    options = {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": offsets,
    }
    with opened(kafka, two_to_five, options) as source:
        if message is None:
            assert [source.start(s) for s in source.shards()] == [begin]
            return
        with pytest.raises(OptionError, match=message) as raised:
            source.start(f"{two_to_five}-0")
        assert raised.value.subject == "scan.startup.specific-offsets"
        assert raised.value.hint


@pytest.fixture(scope="module")
def two_to_five(kafka: Kafka) -> str:
    """A topic that has the offsets 2 to 4."""
    topic = kafka.topic()
    kafka.write(topic, json_rows(range(5)))
    kafka.delete(topic, 2)
    return topic


def test_an_offset_in_an_open_transaction_is_there(kafka: Kafka) -> None:
    """Its records are to come, once it is committed."""
    topic = kafka.topic()
    kafka.leave_open("of an offset", topic, json_rows(range(3)))
    mode = {"scan.startup.mode": "specific-offsets"}
    for offset, is_there in ((3, True), (4, False)):
        named = {"scan.startup.specific-offsets": f"partition:0,offset:{offset}"}
        with opened(kafka, topic, mode | named) as source:
            assert source.end(f"{topic}-0") in (None, 0)
            if is_there:
                assert source.start(f"{topic}-0") == offset
            else:
                with pytest.raises(OptionError, match="ends at 3"):
                    source.start(f"{topic}-0")


def test_a_partition_that_is_not_there_ends_nowhere(kafka: Kafka, four: str) -> None:
    options = {
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:1;partition:3,offset:1",
    }
    with (
        pytest.raises(OptionError, match=r"names partition 3 in 'scan.bounded.specific-offsets'"),
        opened(kafka, four, options),
    ):
        pass


@pytest.mark.parametrize(("reset", "begin"), [("earliest", 2), ("latest", 5), ("none", None)])
def test_a_group_whose_offset_is_not_there_begins_as_without_one(
    kafka: Kafka, two_to_five: str, reset: str, begin: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "scan.startup.mode": "group-offsets",
        "properties.group.id": f"far {reset}",
        "properties.auto.offset.reset": reset,
    }
    shard = f"{two_to_five}-0"
    with opened(kafka, two_to_five, options) as source:
        source.notify_checkpoint({shard: 9})
    with opened(kafka, two_to_five, options) as source:
        if begin is None:
            with pytest.raises(ExecutionError, match="the group has no offset") as raised:
                source.start(shard)
            assert raised.value.detail == "it has 9, and the partition ends at 5"
        else:
            assert source.start(shard) == begin
            assert "its group has 9, and the partition ends at 5" in caplog.text


@pytest.fixture(scope="module")
def four(kafka: Kafka) -> str:
    """A topic of four records at 1, 1, 2 and 3 s, of which a group has read three."""
    topic = kafka.topic()
    times = (1000, 1000, 2000, 3000)
    kafka.write(
        topic, [Record(v, timestamp=t) for v, t in zip(json_rows(range(4)), times, strict=True)]
    )
    with opened(kafka, topic, {"properties.group.id": "known"}) as source:
        source.notify_checkpoint({f"{topic}-0": 3})
    return topic


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"scan.bounded.mode": "latest-offset"}, [0, 1, 2, 3]),
        ({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "2000"}, [0, 1]),
        ({"scan.bounded.mode": "group-offsets", "properties.group.id": "known"}, [0, 1, 2]),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": "partition:0,offset:1",
            },
            [0],
        ),
    ],
)
def test_where_reading_ends(
    kafka: Kafka, four: str, options: dict[str, str], ids: list[int]
) -> None:
    with opened(kafka, four, options) as source:
        kafka.write(kafka.topic(), [b"x"])
        assert source.bounded
        assert values(chunks(source)) == json_rows(ids)
        assert source.read(f"{four}-0", len(ids), max_rows=10) is None


def test_metadata(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    sent = [
        Record(b"{}", None, 1, timestamp=5, headers=(("a", b"1"), ("b", None), ("a", b"2"))),
        Record(b"{}", None, 1, timestamp=6),
    ]
    kafka.write(topic, sent)
    kinds: dict[str, DataType] = {
        "topic": STRING, "partition": INT, "offset": BIGINT, "timestamp": timestamp_ltz(3),
        "timestamp-type": STRING, "headers": map_of(STRING, BYTES), "leader-epoch": INT,
    }  # fmt: skip
    with opened(kafka, topic, BOUNDED, kinds) as source:
        (chunk,) = chunks(source)
    found = {k: v.to_pylist() for k, v in chunk.metadata.items()}
    assert [t.timestamp() for t in found.pop("timestamp")] == [0.005, 0.006]
    assert found == {
        "topic": [topic, topic],
        "partition": [1, 1],
        "offset": [0, 1],
        "timestamp-type": ["CreateTime", "CreateTime"],
        "headers": [[("a", b"2"), ("b", None)], []],
        "leader-epoch": [0, 0],
    }


def test_keys_and_records_without_a_value(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.write(topic, [Record(b"{}", b"k"), Record(None, b"k"), Record(b"{}")])
    with opened(kafka, topic, BOUNDED) as source:
        (chunk,) = chunks(source)
        assert (chunk.num_rows, chunk.kinds, chunk.end) == (2, None, 3)
    upserts = {
        "connector": "upsert-kafka", "topic": topic, "properties.bootstrap.servers": kafka.address,
        "key.format": "raw", "value.format": "json", **BOUNDED,
    }  # fmt: skip
    made = table(upserts)
    source = open_source(type(made)(**{**vars(made), "primary_key": ("name",)}), environment())
    (chunk,) = chunks(source)
    source.close()
    assert chunk.kinds is not None
    assert chunk.keys is not None
    assert chunk.kinds.tolist() == [RowKind.UPDATE_AFTER, RowKind.DELETE, RowKind.UPDATE_AFTER]
    assert chunk.keys.to_pylist() == [b"k", b"k", None]


def test_a_pattern_finds_topics_and_partitions_that_come_later(kafka: Kafka) -> None:
    kafka.topic(1, "found-1")
    options = {
        **kafka.options(
            "", {"topic-pattern": r"found-\d", "scan.topic-partition-discovery.interval": "1"}
        )
    }
    del options["topic"]
    source = open_source(table(options), environment())
    assert source.shards() == ["found-1-0"]
    kafka.topic(1, "found-2")
    kafka.topic(1, "not-found-3")
    kafka.extend("found-1", 2)
    shards = ["found-1-0", "found-1-1", "found-2-0"]
    eventually(lambda: source.shards() == shards, source.shards)
    kafka.write("found-2", [b"{}"])
    chunk = eventually(lambda: source.read("found-2-0", 0, max_rows=10), "the record")
    assert chunk.num_rows == 1
    source.close()


def test_a_server_that_is_away_costs_only_new_partitions() -> None:
    found = [[Partition("t", 0)], None, [Partition("t", 1)]]

    def ask() -> list[Partition]:
        answer = found.pop(0)
        if answer is None:
            raise ExecutionError("away")
        return answer

    now = [0.0]
    discovery = Discovery(ask, 10, lambda: now[0])
    for at, numbers in ((0, [0]), (5, [0]), (11, [0]), (12, [0]), (22, [0, 1]), (23, [0, 1])):
        now[0] = at
        assert [p.number for p in discovery.partitions()] == numbers


def test_records_that_are_gone_are_told(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.write(topic, json_rows(range(5)))
    kafka.delete(topic, 3)
    with opened(kafka, topic) as source:
        shard = f"{topic}-0"
        assert source.first(shard) == 3
        assert source.expired(shard, 3) is None
        assert "begins at 3 by now" in (source.expired(shard, 2) or "")
        assert "made anew" in (source.expired(shard, 6) or "")
        with pytest.raises(ExecutionError, match="cannot be read from offset 1"):
            eventually(lambda: source.read(shard, 1, max_rows=10))
    with opened(kafka, topic) as source:  # a partition that was found later is read from 0 on
        start = eventually(lambda: source.read(f"{topic}-0", 0, max_rows=10))
        assert (start.num_rows, start.end) == (0, 3)
        rest = eventually(lambda: source.read(f"{topic}-0", 3, max_rows=10))
        assert rest.num_rows == 2


def test_no_more_is_fetched_than_is_read(kafka: Kafka) -> None:
    """Of a partition that nobody reads few records wait, while another one is read on."""
    topic = kafka.topic(2)
    kafka.write(topic, [Record(b"x" * 10_000) for _ in range(2000)])
    kafka.write(topic, [Record(b"y" * 10_000, partition=1) for _ in range(1000)])
    options = kafka.options(topic, {"properties.queued.max.messages.kbytes": "1000"})
    source = KafkaConnector().source(table(options), environment())
    assert isinstance(source, KafkaSource)
    with closing(source):
        left, read = source.shards()
        assert eventually(lambda: source.read(left, 0, max_rows=1)).num_rows == 1
        at = 0
        while at < 1000:
            at = eventually(partial(source.read, read, at, max_rows=10)).end
        waiting = source._fetcher._fetched[Partition(topic, 0)]
        assert waiting.paused
        assert 8 << 20 < sum(sum(map(len, run)) for run, _ in waiting.runs) < 12 << 20


def test_subtasks_share_out_the_partitions(kafka: Kafka) -> None:
    topic = kafka.topic(5)
    shares = []
    for index in range(2):
        parts = environment()
        parts = type(parts)(**{**vars(parts), "assignment": SubtaskAssignment(index, 2)})
        source = open_source(table(kafka.options(topic)), parts)
        shares.append(source.shards())
        source.close()
    assert sorted(shares[0] + shares[1]) == [f"{topic}-{n}" for n in range(5)]
    assert {len(s) for s in shares} == {2, 3}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"topic": "", "properties.x": "y"}, OptionError, "needs one of the options"),
        ({"topic-pattern": "x"}, OptionError, "has both 'topic' and 'topic-pattern'"),
        ({"properties.x": "y"}, OptionError, "refuses a setting of table 't', option 'properties.x'"),
        (
            {"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "NIX"},
            OptionError,
            "option 'properties.sasl.mechanism'",
        ),
        (
            {"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "PLAIN"},
            OptionError,
            "option 'properties.sasl.username'",
        ),
        ({"properties.security.protocol": "SASL_PLAINTEXT"}, OptionError, "option 'properties.sasl.mechanism'"),
        ({"properties.fetch.min.bytes": "many"}, OptionError, "option 'properties.fetch.min.bytes'"),
        ({"properties.enable.auto.commit": "true"}, OptionError, "cannot be set so"),
        ({"properties.ssl.truststore.location": "x"}, OptionError, "cannot be set so"),
        ({"properties.sasl.kerberos.kinit.cmd": "x"}, OptionError, "cannot be set so"),
        ({"scan.startup.mode": "timestamp"}, PlanError, "needs the option 'scan.startup.timestamp-millis'"),
        ({"scan.bounded.mode": "specific-offsets"}, PlanError, "needs the option 'scan.bounded.specific"),
        ({"key.format": "json"}, PlanError, "needs the option 'key.fields'"),
        ({"value.format": "json"}, OptionError, "has both 'format' and 'value.format'"),
        ({"sink.delivery-guarantee": "exactly-once"}, PlanError, "needs the option 'sink.transactional-id-prefix'"),
        ({"topic": "missing"}, ExecutionError, "has no topic 'missing'"),
        ({"connector": "upsert-kafka"}, OptionError, "unknown option 'scan.startup.mode'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(
    kafka: Kafka, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        open_source(table(kafka.options("x", options)), environment())


def test_a_table_that_cannot_be_opened_leaves_nothing_behind(kafka: Kafka) -> None:
    """It is tried again and again, by the restarts of its job."""
    made = table(kafka.options("missing", BOUNDED))
    gc.disable()
    try:
        with pytest.raises(ExecutionError):
            open_source(made, environment())
        threads = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            with pytest.raises(ExecutionError):
                open_source(made, environment())
        assert len(os.listdir("/proc/self/task")) <= threads
    finally:
        gc.enable()


def test_a_batch_that_unpacks_to_a_hundred_megabytes_comes_in_parts(kafka: Kafka) -> None:
    """It has 10 KB on the wire. What the client does not unpack has a remedy, and is not lost."""
    topic, value = kafka.topic(), b"\0" * (5 << 20)
    settings = {
        "bootstrap.servers": kafka.address, "compression.type": "zstd", "linger.ms": 2000,
        "message.max.bytes": 500_000_000, "batch.size": 500_000_000,
    }  # fmt: skip
    producer = Producer(settings)
    for _ in range(25):
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    with opened(kafka, topic, BOUNDED) as source, pytest.raises(ExecutionError) as error:
        eventually(partial(source.read, f"{topic}-0", 0, max_rows=1000))
    assert "properties.receive.message.max.bytes" in str(error.value.hint)
    more = {**BOUNDED, "properties.receive.message.max.bytes": "500000000"}
    with opened(kafka, topic, more) as source:
        found = chunks(source)
    assert max(c.records.nbytes for c in found if c.records is not None) < 30 << 20
    assert values(found) == [value] * 25


def test_records_with_long_headers_and_keys_come_in_parts(kafka: Kafka) -> None:
    """What is beside their values counts, whether or not the table reads it."""
    topic, long = kafka.topic(), b"x" * 500_000
    sent = [Record(b"%d" % n, long, headers=(("h", long),)) for n in range(150)]
    kafka.write(topic, sent)
    with opened(kafka, topic, BOUNDED) as source:
        found = chunks(source)
    assert max(c.num_rows for c in found) <= 17
    assert values(found) == [b"%d" % n for n in range(150)]
