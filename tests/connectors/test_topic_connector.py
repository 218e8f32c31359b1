"""Tables over topics: where reading begins and ends, and that every epoch is there exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from parser.errors import PlanError, UnsupportedError
from parser.types import BIGINT, BYTES, INT, timestamp
from sqlengine.batch import Batch, from_pydict
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.registry import open_sink, open_source
from tests.connectors.tables import SCHEMA, Clock, environment, json_rows, read_all, table

EARLIEST = {
    "connector": "topic",
    "topic": "x",
    "format": "json",
    "scan.startup.mode": "earliest-offset",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    made = EmbeddedBroker(tmp_path / "data")
    yield made
    made.close()


def batch(ids: list[int], proctime: int = 7) -> Batch:
    return replace(
        from_pydict(SCHEMA, {"id": ids, "name": [f"n{i}" for i in ids]}), proctime=proctime
    )


def append(broker: EmbeddedBroker, ids: list[int], timestamp_ms: int = 5) -> None:
    broker.append("x", 0, json_rows(ids), timestamp_ms=timestamp_ms)


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        ({}, 4),  # a new job begins at the latest offset
        ({"scan.startup.mode": "earliest-offset"}, 0),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "20"}, 2),
        ({"scan.startup.mode": "group-offsets", "properties.group.id": "g"}, 3),
        ({"scan.startup.mode": "group-offsets", "properties.group.id": "none"}, 4),
    ],
)
def test_where_a_new_job_begins(
    broker: EmbeddedBroker, options: dict[str, str], begin: int
) -> None:
    broker.create_topic("x")
    append(broker, [1, 2], 10)
    append(broker, [3, 4], 20)
    broker.commit("g", "x", {0: 3})
    source = open_source(
        table({"connector": "topic", "topic": "x", "format": "json", **options}),
        environment(broker),
    )
    assert [source.start(s) for s in source.shards()] == [begin]
    assert not source.bounded


def test_options_that_need_each_other(broker: EmbeddedBroker) -> None:
    broker.create_topic("x")
    for mode, missing in (
        ("timestamp", "scan.startup.timestamp-millis"),
        ("group-offsets", "properties.group.id"),
    ):
        with pytest.raises(PlanError, match=f"needs the option '{missing}'"):
            open_source(table({**EARLIEST, "scan.startup.mode": mode}), environment(broker))
    with pytest.raises(PlanError, match="names no column 'nam'"):
        open_sink(table({**EARLIEST, "key.fields": "id;nam"}), environment(broker))


def test_a_sink_packs_its_batches(broker: EmbeddedBroker) -> None:
    sizes = {}
    for packed in ("none", "zstd", "lz4"):
        options = {"connector": "topic", "topic": packed, "format": "json", "compression": packed}
        sink = open_sink(table(options), environment(broker))
        sink.write(batch(list(range(500))))
        assert sink.commit(1) == 500
        sizes[packed] = broker.topic(packed).bytes
        reading = {
            **options,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
        }
        found = read_all(open_source(table(reading), environment(broker)))
        assert len(found) == 500
    assert sizes["zstd"] < sizes["lz4"] < sizes["none"] / 2
    with pytest.raises(PlanError, match="'rar'"):
        open_sink(table({**EARLIEST, "compression": "rar"}), environment(broker))


def test_a_bounded_table_ends_where_the_topic_ended_when_it_was_opened(
    broker: EmbeddedBroker,
) -> None:
    broker.create_topic("x")
    append(broker, [1, 2, 3])
    source = open_source(
        table({**EARLIEST, "scan.bounded.mode": "latest-offset"}), environment(broker)
    )
    append(broker, [4])
    assert source.bounded
    assert source.end("0") == 3
    assert read_all(source, max_rows=2) == json_rows([1, 2, 3])
    assert source.read("0", 3, max_rows=9) is None


def test_a_poll_reads_more_where_that_was_asked_for(broker: EmbeddedBroker) -> None:
    """Of all shards alike, by the size of the records before, and no more than asked for."""
    broker.create_topic("x", 2)
    for shard in (0, 1):
        broker.append("x", shard, json_rows(range(100, 999)), timestamp_ms=5)
    records = len(json_rows([100])[0]) + 4
    for times, size, wanted in ((1, 1 << 40, 10), (3, 1 << 40, 30), (9, 2 * 40 * records, 40)):
        source = open_source(table(EARLIEST), environment(broker))
        assert isinstance(source, WalledSource)
        source.widen(times, size)
        positions = {"0": 0, "1": 0}
        for rows in (10, wanted):
            _, chunks = source.poll(positions, 10)
            assert [c.num_rows for c in chunks] == [rows, rows]
            positions = {c.shard: c.end for c in chunks}
        chunk = source.read("1", 0, max_rows=1)
        assert chunk is not None
        assert chunk.num_rows == 1


def test_metadata_and_tombstones(broker: EmbeddedBroker) -> None:
    broker.create_topic("x")
    broker.append("x", 0, [b"{}", None, b"{}"], keys=[b"a", b"b", None], timestamp_ms=9)
    metadata = {"timestamp": timestamp(6), "offset": BIGINT, "shard": INT, "key": BYTES}
    chunk = open_source(table(EARLIEST, metadata=metadata), environment(broker)).read(
        "0", 0, max_rows=9
    )
    assert chunk is not None
    assert chunk.offsets is not None
    assert (chunk.start, chunk.end, chunk.num_rows, chunk.offsets.tolist()) == (0, 3, 2, [0, 2])
    found = {k: v.to_pylist() for k, v in chunk.metadata.items() if k != "timestamp"}
    assert found == {"offset": [0, 2], "shard": [0, 0], "key": [b"a", None]}
    assert chunk.metadata["timestamp"].type == timestamp(6).arrow


def test_a_missing_topic(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks")
    with pytest.raises(BrokerError, match="topic 'click' of table 't' does not exist") as caught:
        open_source(table({**EARLIEST, "topic": "click"}), environment(broker))
    assert "sql topic create click" in (caught.value.hint or "")
    assert caught.value.detail == "did you mean 'clicks'?"
    with pytest.raises(BrokerError):
        open_sink(
            table({**EARLIEST, "topic": "a", "topic.auto-create": "false"}), environment(broker)
        )
    open_sink(table({**EARLIEST, "topic": "a"}), environment(broker))
    open_source(table({**EARLIEST, "topic": "b", "topic.auto-create": "true"}), environment(broker))
    assert {"a", "b"} <= {t.name for t in broker.topics()}


def test_metadata_columns_are_not_written(broker: EmbeddedBroker) -> None:
    with pytest.raises(UnsupportedError, match="cannot be written"):
        open_sink(table(EARLIEST, metadata={"offset": BIGINT}, virtual=False), environment(broker))


def test_an_epoch_is_one_append_with_the_epochs_time(broker: EmbeddedBroker) -> None:
    sink = open_sink(table(EARLIEST), environment(broker))
    sink.write(batch([1, 2], 77))
    sink.write(batch([3], 78))
    assert read_all(open_source(table(EARLIEST), environment(broker))) == []
    assert sink.commit(5) == 3
    assert sink.commit(6) == 0
    records = broker.read("x", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == json_rows([1, 2, 3])
    assert records.timestamps.tolist() == [78, 78, 78]


def test_rows_go_to_shards_by_key(broker: EmbeddedBroker) -> None:
    broker.create_topic("x", 3)
    sink = open_sink(table({**EARLIEST, "key.fields": "name"}), environment(broker))
    sink.write(batch(list(range(50))))
    assert sink.commit(1) == 50
    found = []
    for shard in range(3):
        records = broker.read("x", shard, 0)
        assert records is not None
        keys = records.keys.to_pylist() if records.keys is not None else []
        assert all(xxh64_intdigest(k, 0) % 3 == shard for k in keys)
        found += records.values.to_pylist()
    assert sorted(found) == sorted(json_rows(range(50)))


def test_two_tables_of_a_graph_may_share_a_topic(broker: EmbeddedBroker) -> None:
    sinks = [open_sink(table(EARLIEST, name=name), environment(broker)) for name in ("a", "b")]
    for i, sink in enumerate(sinks):
        sink.write(batch([i]))
    assert [sink.commit(1) for sink in sinks] == [1, 1]


class Killed(BaseException):
    """The process ends here."""


class DyingBroker:
    """Passes everything on until so many appends are done."""

    def __init__(self, broker: EmbeddedBroker, appends: int) -> None:
        self._broker = broker
        self._left = appends

    def __getattr__(self, name: str) -> object:
        if name == "append":
            self._left -= 1
            if self._left < 0:
                raise Killed
        return getattr(self._broker, name)


@settings(max_examples=40, deadline=None)
@given(
    epochs=st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=5),
    shards=st.integers(1, 3),
    keyed=st.booleans(),
    deaths=st.lists(st.integers(0, 6), max_size=4),
)
def test_every_epoch_is_there_once_whenever_the_writer_dies(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[list[int]],
    shards: int,
    keyed: bool,
    deaths: list[int],
) -> None:
    """After each death a new sink repeats all epochs from the first, as a replay from an old
    checkpoint would."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("data"))
    broker.create_topic("x", shards)
    wanted = table({**EARLIEST, **({"key.fields": "id"} if keyed else {})})
    for appends in [*deaths, 1000]:
        sink = open_sink(wanted, environment(DyingBroker(broker, appends), clock=Clock(1)))
        try:
            for number, ids in enumerate(epochs):
                sink.write(batch(ids))
                sink.commit(number)
        except Killed:
            continue
    last = max((n for n, ids in enumerate(epochs) if ids), default=None)
    assert open_sink(wanted, environment(broker)).last_epoch() == last
    found = read_all(open_source(wanted, environment(broker)))
    assert sorted(found) == sorted(json_rows(i for ids in epochs for i in ids))
    broker.close()
