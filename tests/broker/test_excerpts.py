"""Excerpts: other processes read the records of a range from links to the files, whatever becomes of
the topic meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sqlengine.broker.base import Records
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage import index
from sqlengine.broker.storage.compression import COMPRESSIONS


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "INDEX_BYTES", 256)


def filled(folder: Path, seed: int) -> EmbeddedBroker:
    """A topic of some segments: batches of any kind, epochs without records between them."""
    rng = random.Random(seed)
    broker = EmbeddedBroker(folder, segment_bytes=4096)
    broker.create_topic("t")
    for number in range(60):
        values = [rng.choice([None, b"x" * rng.randint(0, 90)]) for _ in range(rng.randint(0, 9))]
        keys = rng.choice([None, [rng.choice([None, b"key"]) for _ in values]])
        broker.append(
            "t",
            0,
            values,
            keys=keys,
            timestamp_ms=number,
            writer="w",
            epoch=number,
            compression=rng.choice(COMPRESSIONS),
        )
    return broker


def columns(records: Records | None) -> list[tuple[object, ...]]:
    """The records of a read as rows."""
    if records is None:
        return []
    keys = [None] * records.num_rows if records.keys is None else records.keys.to_pylist()
    rows = zip(
        records.offsets.tolist(),
        records.timestamps.tolist(),
        records.values.to_pylist(),
        keys,
        strict=True,
    )
    return list(rows)


@pytest.mark.parametrize("seed", range(12))
def test_excerpts_have_what_a_read_has(seed: int, tmp_path: Path) -> None:
    broker, rng = filled(tmp_path / "data", seed), random.Random(seed)
    for _ in range(2):  # its index is of this process, then of another one
        end, links = broker.end_offset("t", 0), tmp_path / f"links-{rng.random()}"
        start, step = rng.randint(0, end // 2), rng.randint(15, 40)
        stops = [*range(start, end, step), end]
        found = broker.excerpts("t", 0, stops, links)
        assert found is not None
        assert {e.start for e in found} | {end} <= set(stops)
        read = [row for excerpt in found for row in columns(excerpt.read())]
        assert read == columns(broker.read("t", 0, start, until=end))
        # Little is read twice: each part of a file by two of them at most.
        size = sum(piece.size for excerpt in found for piece in excerpt.pieces)
        assert size <= 2 * sum(link.stat().st_size for link in links.iterdir())
        broker.close()
        broker = EmbeddedBroker(tmp_path / "data", segment_bytes=4096)
    broker.close()


def test_what_retention_takes_is_still_there(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data", 1)
    end = broker.end_offset("t", 0)
    found = broker.excerpts("t", 0, [*range(0, end, 30), end], tmp_path / "links")
    assert found is not None
    before = columns(broker.read("t", 0, 0, until=end))
    broker.trim("t", 0, end)
    assert broker.begin_offset("t", 0) > 0
    broker.append("t", 0, [b"another"], timestamp_ms=99)
    assert [row for excerpt in found for row in columns(excerpt.read())] == before
    assert broker.excerpts("t", 0, [0, 30, end], tmp_path / "links") is None, "it is gone"
    broker.delete_topic("t")
    assert [row for excerpt in found for row in columns(excerpt.read())] == before
    broker.close()


def test_large_batches_and_compacted_topics_are_not_shared_out(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "data")
    broker.create_topic("large")
    broker.append("large", 0, [b"value"] * 1000, timestamp_ms=0)
    broker.create_topic("compacted", compacted=True)
    for _ in range(100):
        broker.append("compacted", 0, [b"value"] * 10, keys=[b"k"] * 10, timestamp_ms=0)
    stops = [*range(0, 1000, 100), 1000]
    assert broker.excerpts("large", 0, stops, tmp_path / "links") is None
    assert broker.excerpts("compacted", 0, stops, tmp_path / "links") is None
    assert broker.excerpts("large", 0, [0, 300, 600, 1000], tmp_path / "links") is not None
    broker.close()


@pytest.mark.parametrize("change", ["cut", "changed", "removed"])
def test_damage_is_told(change: str, tmp_path: Path) -> None:
    broker = filled(tmp_path / "data", 2)
    end = broker.end_offset("t", 0)
    found = broker.excerpts("t", 0, [*range(0, end, 30), end], tmp_path / "links")
    assert found is not None
    broker.close()
    for link in (tmp_path / "links").iterdir():
        data = link.read_bytes()
        link.unlink()
        if change != "removed":
            half = len(data) // 2
            link.write_bytes(data[:half] + (b"" if change == "cut" else bytes(len(data) - half)))
    with pytest.raises((OSError, BrokerError)):
        [excerpt.read() for excerpt in found]


def test_excerpts_are_not_shorter_than_what_the_index_knows(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "data")
    broker.create_topic("t")
    for n in range(40):
        broker.append("t", 0, [b"%d" % n], timestamp_ms=0)
    found = broker.excerpts("t", 0, [*range(40), 40], tmp_path / "links")
    assert found is not None
    assert 10 <= len(found) < 40
    broker.close()
