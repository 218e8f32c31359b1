"""Batches compressed by the appending client: stored and sent as they came, decompressed by
readers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, TopicFull
from sqlengine.broker.storage.codec import BINARY, encode
from sqlengine.broker.storage.compression import COMPRESSIONS, Compression
from sqlengine.broker.storage.reading import ReadBounds

LINES: list[bytes | None] = [
    b'{"user": "user-%d", "action": "login"}' % (number % 7) for number in range(1000)
]


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17])
@pytest.mark.parametrize("keys", [None, LINES[::-1]], ids=["without keys", "with keys"])
def test_few_records_have_the_layout_of_columns(
    count: int, keys: list[bytes | None] | None
) -> None:
    """They are put together without Arrow."""
    values, beside = LINES[:count], None if keys is None else keys[:count]
    columns = pa.array(values, BINARY), None if beside is None else pa.array(beside, BINARY)
    assert encode(values, beside) == encode(*columns)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_batches_are_read_back(any_broker: Broker, compression: Compression) -> None:
    any_broker.create_topic("t", compression=compression)
    keys = [b"%d" % (number % 3) if number % 5 else None for number in range(1000)]
    any_broker.append("t", 0, LINES, timestamp_ms=1)
    any_broker.append("t", 0, [b"few", None], timestamp_ms=2)
    any_broker.append("t", 0, pa.array(LINES[::-1]), keys=keys, timestamp_ms=3)
    whole = any_broker.read("t", 0, 0)
    assert whole is not None
    assert whole.values.to_pylist() == [*LINES, b"few", None, *LINES[::-1]]
    assert whole.keys is not None
    assert whole.keys.to_pylist() == [None] * 1002 + keys
    part = any_broker.read("t", 0, 990, max_records=20)
    assert part is not None
    assert part.values.to_pylist() == [*LINES[990:], b"few", None, *LINES[:-9:-1]]
    assert part.timestamps.tolist() == [1] * 10 + [2] * 2 + [3] * 8
    size = any_broker.topic("t").bytes
    assert size > 80_000 if compression == "none" else size < 30_000


def test_a_producer_chooses_for_itself(any_broker: Broker) -> None:
    any_broker.create_topic("t", compression="zstd")
    any_broker.append("t", 0, LINES, timestamp_ms=0, compression="none")
    assert any_broker.topic("t").bytes > 40_000
    any_broker.append("t", 0, LINES, timestamp_ms=0, compression="lz4")
    assert any_broker.topic("t").bytes < 50_000


def test_batches_are_kept_and_carried_as_they_came(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", compression="zstd")
    broker.append("t", 0, LINES, timestamp_ms=0)
    broker.close()
    (path,) = (folder / "topics" / "t.topic" / "0").glob("*.seg")
    assert b"login" * 2 not in path.read_bytes()
    broker = EmbeddedBroker(folder)
    batches = broker.read_batches("t", 0, 0, ReadBounds(1000, 1 << 20, None))
    assert batches is not None
    assert batches.data in path.read_bytes()
    assert len(batches.data) < 5_000
    broker.close()


def test_a_compacted_topic_is_packed_too(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", compacted=True, compression="lz4")
    for turn in range(3):
        broker.append(
            "t",
            0,
            LINES,
            keys=[b"%d" % (number % 500) for number in range(1000)],
            timestamp_ms=turn,
        )
    broker.compact("t")
    assert broker.topic("t").bytes < 20_000
    assert broker.read_latest("t") == {
        b"%d" % (number % 500): line for number, line in enumerate(LINES)
    }
    broker.close()


def test_options_are_changed_and_kept(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", retention_ms=5)
    changed = broker.alter_topic("t", compression="zstd", max_bytes=10_000)
    assert (changed.retention_ms, changed.max_bytes, changed.compression) == (5, 10_000, "zstd")
    for wrong in ({"compression": "rar"}, {"max_bytes": -1}, {"delete_retention_ms": 1}):
        with pytest.raises(BrokerError):
            broker.alter_topic("t", **wrong)
    broker.close()
    broker = EmbeddedBroker(folder)
    assert broker.topic("t") == changed
    assert broker.alter_topic("t", retention_ms=None).retention_ms is None
    broker.close()


def test_a_full_topic_takes_more_once_something_is_removed(any_broker: Broker) -> None:
    any_broker.create_topic("t", max_bytes=4000)
    any_broker.append(
        "t", 0, [bytes(2000)], timestamp_ms=0, writer="w", epoch=1, compression="none"
    )
    for _ in range(2):
        with pytest.raises(TopicFull, match="topic 't' is full") as error:
            any_broker.append(
                "t", 0, [bytes(3000)], timestamp_ms=0, writer="w", epoch=2, compression="none"
            )
    assert "may hold 4,000; nothing was written" in str(error.value.detail)
    assert any_broker.end_offset("t", 0) == 1
    any_broker.alter_topic("t", retention_ms=0)
    any_broker.apply_retention()
    assert not any_broker.append(
        "t", 0, [bytes(3000)], timestamp_ms=0, writer="w", epoch=2
    ).duplicate
