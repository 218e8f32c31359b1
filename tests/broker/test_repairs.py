"""`sql topic repair`: what is damaged of a topic is given up, and nothing else."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, CorruptSegment, TopicNotFound
from sqlengine.broker.repair import repair_topic
from sqlengine.cli import cli

ROWS = 40


def filled(folder: Path, *, compacted: bool = False) -> dict[int, bytes]:
    """A topic in several segments. Returns its records by offset."""
    broker = EmbeddedBroker(folder, segment_bytes=4_096)
    broker.create_topic("t", compacted=compacted, max_bytes=10**12)
    for number in range(ROWS):
        values = [b"%d-%d" % (number, row) * 20 for row in range(5)]
        keys = [b"%d" % (number % 7 * 5 + row) for row in range(5)] if compacted else None
        broker.append("t", 0, values, keys=keys, timestamp_ms=number, writer="w", epoch=number)
        if compacted and number == 30:
            broker.compact("t")
    found = records_of(broker)
    broker.close()
    return found


def records_of(broker: EmbeddedBroker) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = broker.begin_offset("t", 0)
    while (records := broker.read("t", 0, offset, max_records=17)) is not None:
        found.update(zip(records.offsets.tolist(), records.values.to_pylist(), strict=True))
        offset = records.next_offset
    assert offset == broker.end_offset("t", 0)
    return found


def segments_of(folder: Path) -> list[Path]:
    return sorted((folder / "topics" / "t.topic" / "0").glob("*.seg"))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("compacted", [False, True])
def test_all_but_what_is_lost_is_as_it_was(folder: Path, seed: int, compacted: bool) -> None:
    chance = random.Random(seed)
    before = filled(folder, compacted=compacted)
    for path in chance.sample(segments_of(folder), 2):
        content = bytearray(path.read_bytes())
        if chance.random() < 0.5:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        else:
            del content[chance.randrange(len(content)) :]
        path.write_bytes(content)
    done = repair_topic(folder, "t")
    lost = {o for one in done.lost.get(0, []) for o in range(one.first, one.behind)}
    assert all(one.kept.name.endswith(".damaged") for one in done.lost.get(0, []))
    broker = EmbeddedBroker(folder, segment_bytes=4_096)
    assert records_of(broker) == {o: value for o, value in before.items() if o not in lost}
    assert compacted or len(lost) < len(before)
    assert broker.end_offset("t", 0) == ROWS * 5
    assert broker.append("t", 0, [b"x"], keys=[b"x"], timestamp_ms=99).first_offset == ROWS * 5
    broker.close()
    assert repair_topic(folder, "t").lost == {}


@pytest.mark.parametrize("damage", ["gone", "garbage", "flipped", "folder"])
def test_a_lost_definition_is_made_of_the_folders(folder: Path, damage: str) -> None:
    before = filled(folder, compacted=True)
    path = folder / "topics" / "t.topic" / "topic.json"
    content = path.read_bytes()
    path.unlink()
    match damage:
        case "garbage":
            path.write_bytes(b"\xff{")
        case "flipped":
            path.write_bytes(content.replace(b"compacted", b"compactee"))
        case "folder":
            path.mkdir()
    broker = EmbeddedBroker(folder)
    with pytest.raises(CorruptSegment) as error:
        broker.read("t", 0, 0)
    assert f"sql topic repair t --data {folder}" in str(error.value.hint)
    broker.close()
    assert repair_topic(folder, "t") == ({}, True)
    broker = EmbeddedBroker(folder)
    assert broker.topic("t").compacted
    assert records_of(broker) == before
    broker.close()


def test_each_bit_of_a_definition_counts(folder: Path) -> None:
    filled(folder)
    path = folder / "topics" / "t.topic" / "topic.json"
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[place] ^= 4
        path.write_bytes(flipped)
        broker = EmbeddedBroker(folder)
        with pytest.raises(BrokerError, match=r"topic\.json"):
            broker.read("t", 0, 0)
        broker.close()


def test_a_definition_of_before_has_no_checksum(folder: Path) -> None:
    filled(folder)
    path = folder / "topics" / "t.topic" / "topic.json"
    known = json.loads(path.read_bytes())
    del known["crc"]
    path.write_text(json.dumps(known))
    broker = EmbeddedBroker(folder)
    assert broker.topic("t").max_bytes == 10**12
    broker.close()


def test_the_command_says_what_is_lost(folder: Path) -> None:
    filled(folder)
    runner = CliRunner()
    command = ["topic", "repair", "t", "--data", str(folder)]
    assert runner.invoke(cli, command).output == "t: nothing is damaged\n"
    path = segments_of(folder)[-1]
    os.truncate(path, path.stat().st_size - 1)
    said = runner.invoke(cli, command).output
    assert (
        said == f"t: shard 0 lost 5 records from offset 195 on; the file before is {path}.damaged\n"
    )
    shutil.rmtree(path.parent)
    assert "t: shard 0 lost" not in runner.invoke(cli, command).output
    broker = EmbeddedBroker(folder)
    assert broker.begin_offset("t", 0) == broker.end_offset("t", 0)
    with pytest.raises(BrokerError, match="is in use by the process"):
        repair_topic(folder, "t")
    broker.close()
    with pytest.raises(TopicNotFound):
        repair_topic(folder, "none")
