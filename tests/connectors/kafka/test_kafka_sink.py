"""Writing to topics of Kafka: an epoch is there once, whatever happened to its transaction; keys, ends
of rows, headers and times; a server that is away keeps rows waiting, and loses none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from parser.errors import ExecutionError, UnsupportedError
from parser.types import BIGINT, BYTES, STRING, Schema, map_of, timestamp_ltz
from planner.capabilities import DeliveryGuarantee
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.environment import rehearsing, writer_of
from sqlengine.connectors.kafka.connector import KafkaConnector
from sqlengine.connectors.kafka.transactions import TransactionalSink
from sqlengine.connectors.registry import capabilities_of, open_sink
from tests.connectors.kafka.clients import Kafka
from tests.connectors.tables import SCHEMA, environment, json_rows, table
from tests.support import eventually

_writers = count()
INSERT, UB, UA, DELETE = (int(k) for k in RowKind)


def target(kafka: Kafka, topic: str, exactly_once: bool = True, **more: str) -> Table:
    options = {k: v for k, v in kafka.options(topic).items() if not k.startswith("scan.")}
    if exactly_once:
        options |= {
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": "tests",
        }
    return table(options | {k.replace("_", "."): v for k, v in more.items()})


def rows(ids: range | list[int], schema: Schema = SCHEMA) -> Batch:
    return from_pydict(schema, {"id": list(ids), "name": [f"n{i}" for i in ids]})


def write(sink: Sink, epoch: int, ids: range | list[int]) -> int:
    sink.write(rows(ids))
    return eventually(lambda: _committed(sink, epoch) + 1, "a commit") - 1


def _committed(sink: Sink, epoch: int) -> int:
    """Returns the rows of a commit; -1 while the server keeps it waiting."""
    try:
        return sink.commit(epoch)
    except Busy:
        return -1


@pytest.fixture
def writer() -> str:
    return f"w{next(_writers)}"


def test_epochs_are_there_once(kafka: Kafka, writer: str) -> None:
    topic = kafka.topic(2)
    made = target(kafka, topic)
    with closing(open_sink(made, environment(writer=writer))) as sink:
        assert sink.last_epoch() is None
        assert sink.commit(1) == 0
        assert write(sink, 2, range(3)) == 3
        assert write(sink, 3, range(3, 5)) == 2
    with closing(open_sink(made, environment(writer=writer))) as sink:
        assert write(sink, 3, range(3, 5)) == 0
        assert write(sink, 4, [5]) == 1
        assert sink.last_epoch() == 4
    with closing(open_sink(made, environment(writer=writer + " other"))) as sink:
        assert sink.last_epoch() is None
    assert sorted(v for v in kafka.values(topic) if v) == json_rows(range(6))


def test_a_process_left_behind_writes_nothing_more(kafka: Kafka, writer: str) -> None:
    topic = kafka.topic()
    made = target(kafka, topic)
    with closing(open_sink(made, environment(writer=writer))) as old:
        assert write(old, 1, [1]) == 1
        with rehearsing():  # fences nobody
            open_sink(made, environment(writer=writer)).close()
        assert write(old, 2, [2]) == 1
        with closing(open_sink(made, environment(writer=writer))) as new:
            assert new.last_epoch() == 2
            with pytest.raises(ExecutionError, match="another process writes to topic"):
                write(old, 3, [0])
            new.write(rows([3]))
            assert new.commit(3) == 1  # it was not fenced in turn
    assert kafka.values(topic) == json_rows([1, 2, 3])


def test_a_client_of_its_own_that_comes_back_costs_one_more_attempt(
    kafka: Kafka, writer: str
) -> None:
    """A question that it has asked before a broker stopped may be read when that goes on."""
    topic = kafka.topic()
    made = target(kafka, topic)
    with closing(open_sink(made, environment(writer=writer))) as sink:
        for epoch in range(1, 4):
            sink.write(rows([epoch]))
            with pytest.raises(Busy) if epoch > 1 else nullcontext():
                sink.commit(epoch)
            eventually(lambda: _committed(sink, epoch) >= 0, "the commit")  # noqa: B023
            kafka.take_over(f"tests-{writer_name(made, writer)}")
    assert kafka.values(topic) == json_rows([1, 2, 3])


def test_a_transaction_that_was_left_open_holds_up_no_attempt(
    kafka: Kafka, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client was given up when the number of its epoch was out, and its commit was not."""
    topic = kafka.topic()
    timed_out = KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def left_open(sink: TransactionalSink, client: Producer, epoch: int) -> None:
        at = TopicPartition(topic, 0, epoch, "me")
        client.send_offsets_to_transaction([at], sink._mark.group, 30)
        raise timed_out

    with closing(open_sink(target(kafka, topic), environment(writer=writer))) as sink:
        assert write(sink, 1, [1]) == 1
        sink.write(rows([2]))
        with monkeypatch.context() as patch:
            patch.setattr(TransactionalSink, "_commit_mark", left_open)
            with pytest.raises(Busy):
                sink.commit(2)
        assert sink.commit(2) == 1
    assert kafka.values(topic) == json_rows([1, 2])


def test_epochs_that_another_process_has_written_are_not_taken_for_own(
    kafka: Kafka, writer: str
) -> None:
    """A copy of a data folder runs beside it: nobody's rows are left out silently."""
    topic = kafka.topic()
    made = target(kafka, topic)
    with closing(open_sink(made, environment(writer=writer))) as first:
        assert write(first, 1, [1]) == 1
        kafka.take_over(f"tests-{writer_name(made, writer)}")
        first.write(rows([2]))
        with pytest.raises(Busy):
            first.commit(2)
        with closing(open_sink(made, environment(writer=writer))) as second:
            assert write(second, 2, [-2]) == 1
            with pytest.raises(ExecutionError, match="another process writes to topic"):
                first.commit(2)
            second.write(rows([3]))
            assert second.commit(3) == 1
    assert kafka.values(topic) == json_rows([1, -2, 3])


def test_what_a_crash_left_open_is_not_there(kafka: Kafka, writer: str) -> None:
    topic = kafka.topic()
    made = target(kafka, topic)
    crashed = open_sink(made, environment(writer=writer))
    assert write(crashed, 1, [1]) == 1
    kafka.leave_open(f"tests-{writer_name(made, writer)}", topic, [b"never"])
    with closing(open_sink(made, environment(writer=writer))) as sink:
        assert write(sink, 2, [2]) == 1
    crashed.close()
    assert kafka.values(topic) == json_rows([1, 2])


def writer_name(made: Table, writer: str) -> str:
    return writer_of(writer, made, *(f"{k}={v}" for k, v in sorted(made.options.items())))


@pytest.mark.slow  # jobs show it, too
@pytest.mark.parametrize("exactly_once", [True, False])
def test_rows_wait_for_a_server_that_is_away(kafka: Kafka, writer: str, exactly_once: bool) -> None:
    topic = kafka.topic()
    made = target(kafka, topic, exactly_once)
    with closing(open_sink(made, environment(writer=writer))) as sink:
        assert write(sink, 1, [1]) == 1
        kafka.server.kill()
        sink.write(rows([2]))
        with pytest.raises(Busy, match="takes no rows now"):
            sink.commit(2)
        health = sink.health
        assert health is not None
        troubles = [health.trouble]
        kafka.server.start()
        eventually(lambda: _committed(sink, 2) == 1, "the commit")
        assert write(sink, 3, [3]) == 1
        troubles.append(health.trouble)
        assert [t is None for t in troubles] == [False, True]
        assert health.reconnects >= 1
    assert kafka.values(topic) == json_rows([1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("pauses", [False, True])
def test_what_was_given_up_while_a_server_is_away_fences_nobody_for_good(
    kafka: Kafka, writer: str, pauses: bool
) -> None:
    """Clients that were given up as they asked to be the writer must not come back as it."""
    topic = kafka.topic()
    made = target(kafka, topic)
    with closing(open_sink(made, environment(writer=writer))) as sink:
        assert write(sink, 1, [1]) == 1
        kafka.server.pause() if pauses else kafka.server.kill()
        sink.write(rows([2]))
        kept = []  # as a graph keeps the last one
        for _ in range(3):
            with pytest.raises(Busy) as busy:
                sink.commit(2)
            kept.append(busy.value)
        kafka.server.go_on() if pauses else kafka.server.start()
        eventually(lambda: _committed(sink, 2) >= 0, "the commit")
        for epoch in range(3, 50):
            assert write(sink, epoch, [epoch]) == 1
            time.sleep(0.05)
    assert kafka.values(topic) == json_rows(range(1, 50))


def test_a_record_of_upserts_is_the_last_row_of_each_key(kafka: Kafka) -> None:
    topic = kafka.topic(cleanup_policy="compact")
    options = {
        "connector": "upsert-kafka", "topic": topic, "properties.bootstrap.servers": kafka.address,
        "key.format": "json", "value.format": "json", "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    made = replace(table(options), primary_key=("id",))
    changes = replace(
        rows([1, 2, 1, 3, 2]), kinds=np.array([INSERT, INSERT, UA, INSERT, DELETE], np.int8)
    )
    with closing(open_sink(made, environment())) as sink:
        sink.write(changes)
        assert sink.commit(1) == 5
    assert {r.key: r.value for r in kafka.read(topic)} == {
        b'{"id":1}': b'{"name":"n1"}',
        b'{"id":3}': b'{"name":"n3"}',
        b'{"id":2}': None,
    }


def test_keys_headers_and_times(kafka: Kafka) -> None:
    topic = kafka.topic(3)
    made = target(kafka, topic, exactly_once=False, key_format="csv", key_fields="name")
    made = table(
        dict(made.options),
        metadata={"timestamp": timestamp_ltz(3), "headers": map_of(STRING, BYTES)},
        virtual=False,
    )
    data: dict[str, list[object]] = {
        "id": [1, 2], "name": ["a", "b"], "m_timestamp": [5, None],
        "m_headers": [[("x", b"1"), ("y", None)], None],
    }  # fmt: skip
    with closing(open_sink(made, environment())) as sink:
        sink.write(from_pydict(made.schema, data))
        assert sink.commit(1) == 2
    found = {r.key: r for r in kafka.read(topic)}
    assert found[b"a"].timestamp == 5
    assert found[b"a"].headers == (("x", b"1"), ("y", None))
    assert found[b"b"].timestamp > 5
    assert found[b"b"].headers == ()
    assert found[b"a"].value == b'{"id":1,"name":"a"}'


def test_partitions(kafka: Kafka) -> None:
    fixed = kafka.topic(3)
    with closing(
        open_sink(target(kafka, fixed, False, **{"sink.partitioner": "fixed"}), environment())
    ) as sink:
        assert write(sink, 1, range(10)) == 10
    assert {r.partition for r in kafka.read(fixed)} == {0}


def test_a_record_that_is_too_large(kafka: Kafka) -> None:
    topic = kafka.topic()
    made = target(kafka, topic, False)
    huge = from_pydict(SCHEMA, {"id": [1], "name": ["x" * (2 << 20)]})
    with (
        closing(open_sink(made, environment())) as sink,
        pytest.raises(ExecutionError, match="more than Kafka may get"),
    ):
        sink.write(huge)
    more = target(kafka, topic, False, **{"properties.max.request.size": "4000000"})
    with closing(open_sink(more, environment())) as sink:
        sink.write(huge)
        assert sink.commit(1) == 1
        # The topic itself may refuse it.
        small = kafka.topic(max_message_bytes="1000")
        refusing = target(kafka, small, False, **{"properties.compression.type": "none"})
        with closing(open_sink(refusing, environment())) as other:
            other.write(from_pydict(SCHEMA, {"id": [1], "name": ["x" * 5000]}))
            with pytest.raises(ExecutionError, match="refuses a record"):
                other.commit(1)
    ten = target(
        kafka,
        kafka.topic(max_message_bytes="20000000"),
        True,
        **{"properties.max.request.size": "12000000", "properties.compression.type": "none"},
    )
    with closing(open_sink(ten, environment(writer="large"))) as sink:
        sink.write(from_pydict(SCHEMA, {"id": [1], "name": ["x" * 10_000_000]}))
        assert sink.commit(1) == 1


def test_headers_are_of_a_record_s_size(kafka: Kafka) -> None:
    made = table(
        kafka.options(kafka.topic(), {"properties.max.request.size": "10000"}),
        metadata={"headers": map_of(STRING, BYTES)},
        virtual=False,
    )

    def with_header(size: int) -> Batch:
        columns: dict[str, Sequence[object]] = {
            "id": [0, 1],
            "name": ["a", "b"],
            "m_headers": [None, [("h", b"x" * size)]],
        }
        return from_pydict(made.schema, columns)

    with closing(open_sink(made, environment())) as sink:
        for refuses in (sink.write, partial(KafkaConnector().encode, made)):
            with pytest.raises(ExecutionError, match="more than Kafka may get"):
                refuses(with_header(10_000))
        least = len(b'{"id":1,"name":"b"}') + len("h") + 10
        sink.write(with_header(10_000 - least))  # to the last byte
        assert sink.commit(1) == 2


def test_the_guarantee_is_told(kafka: Kafka) -> None:
    for exactly, guarantee in (
        (True, DeliveryGuarantee.EXACTLY_ONCE),
        (False, DeliveryGuarantee.AT_LEAST_ONCE),
    ):
        sink = capabilities_of(target(kafka, "x", exactly)).sink
        assert sink is not None
        assert sink.guarantee is guarantee


def test_what_cannot_be_written(kafka: Kafka) -> None:
    with pytest.raises(ExecutionError, match="has no topic 'nowhere'"):
        open_sink(target(kafka, "nowhere"), environment())
    made = table(
        dict(target(kafka, kafka.topic()).options), metadata={"offset": BIGINT}, virtual=False
    )
    with pytest.raises(UnsupportedError, match=r"'m_offset' .* cannot be written"):
        open_sink(made, environment())
