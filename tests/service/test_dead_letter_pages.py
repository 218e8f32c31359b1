"""Pages of dead letters: equal to a look at all of them, at the cost of the page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sqlengine.broker.base import Records
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterQueue
from sqlengine.executors.dead_letters import DEAD_LETTERS, encode_owner

TABLES = ("c.d.events", "c.d.others")
COUNT = 12_000


class Counting(EmbeddedBroker):
    """Counts the records that are read."""

    rows_read = 0

    def read(self, topic: str, shard: int, offset: int, **limits: Any) -> Records | None:
        records = super().read(topic, shard, offset, **limits)
        self.rows_read += 0 if records is None else records.num_rows
        return records


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Counting]:
    found = Counting(tmp_path, segment_bytes=1 << 20)
    found.create_topic(DEAD_LETTERS, retention_bytes=1 << 30)
    yield found
    found.close()


def letter(number: int) -> dict[str, object]:
    """Most are of `busy`; each 1,500th is of `rare`, each 7th of a table alone."""
    job = "rare" if number % 1500 == 700 else "" if number % 7 == 0 else f"busy{number % 3}"
    table = TABLES[number // 4000 % 2]
    return {
        "time": number * 10,
        "job": job,
        "place": "1:1",
        "subject": "x",
        "reason": "r",
        "payload": "p",
        "table": table,
    }


def write(broker: EmbeddedBroker, first: int, end: int) -> None:
    for start in range(first, end, 250):
        letters = [letter(n) for n in range(start, min(start + 250, end))]
        keys = [encode_owner(str(x["job"]), str(x["table"])) for x in letters]
        values = [msgspec.json.encode(x) for x in letters]
        broker.append(DEAD_LETTERS, 0, values, keys=keys, timestamp_ms=(start + 249) * 10)


def naive(wanted: DeadLetterFilter, numbers: range) -> list[int]:
    found = [msgspec.convert({**letter(n), "id": n}, DeadLetter) for n in numbers]
    return [x.id for x in found if wanted.may_match((x.job, x.table)) and wanted.matches(x)]


WANTED = {
    "all": DeadLetterFilter(),
    "a job and the tables that it reads": DeadLetterFilter("busy1", tables=TABLES[:1]),
    "a job with few": DeadLetterFilter("rare"),
    "a job with none": DeadLetterFilter("nobody"),
    "a table": DeadLetterFilter(table="others"),
    "since": DeadLetterFilter("busy2", since_ms=77_775),
    "some": DeadLetterFilter("busy1", ids=frozenset({4, 5, 1000, 9_001, 9_002, 9_003})),
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=list(WANTED))
def test_pages_are_those_of_a_look_at_all(broker: Counting, wanted: DeadLetterFilter) -> None:
    letters = DeadLetterQueue(broker)
    assert letters.last(wanted, 5) == []
    for end in (3_333, COUNT):  # the second time only what is new is taken into the index
        write(broker, broker.end_offset(DEAD_LETTERS, 0), end)
        expected = naive(wanted, range(end))
        assert [x.id for x in letters.read(wanted)] == expected
        for after in (-1, 0, 998, 999, 1000, 3_332, end - 1, end + 5000):
            assert [x.id for x in islice(letters.read(wanted, after), 120)] == [
                n for n in expected if n > after
            ][:120]
        for count in (1, 7, 500):
            assert [x.id for x in letters.last(wanted, count)] == expected[-count:]


def test_a_page_costs_the_page(broker: Counting) -> None:
    write(broker, 0, COUNT)
    letters = DeadLetterQueue(broker)
    letters.refresh()
    for wanted, most in (
        (DeadLetterFilter(), 2_000),
        (DeadLetterFilter("rare"), 2_000),
        (DeadLetterFilter("nobody"), 0),
        (DeadLetterFilter(since_ms=119_900), 1_000),
    ):
        broker.rows_read = 0
        assert len(letters.last(wanted, 2)) == (0 if wanted.job == "nobody" else 2)
        list(islice(letters.read(wanted, COUNT // 2), 2))
        assert broker.rows_read <= 2 * most, wanted


def test_replays_are_known_and_what_the_topic_drops_is_forgotten(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, clock=lambda: 0)
    broker.create_topic(DEAD_LETTERS, retention_bytes=1 << 18)
    write(broker, 0, 1000)
    mark = msgspec.json.encode({"replayed": [3, 700], "job": "busy1"})
    broker.append(DEAD_LETTERS, 0, [mark], timestamp_ms=0)
    letters = DeadLetterQueue(broker)
    assert [letters.replayed(n) for n in (3, 4, 700)] == [{"busy1"}, set(), {"busy1"}]
    write(broker, 1001, COUNT)
    broker.apply_retention()
    begin = broker.begin_offset(DEAD_LETTERS, 0)
    assert begin > 2000
    assert [x.id for x in letters.read(DeadLetterFilter())] == list(range(begin, COUNT))
    assert letters.replayed(700) == set()
    broker.close()
