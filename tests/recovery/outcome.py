"""What came out of a run that was killed again and again, and what must hold of it: nothing lost,
nothing doubled."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet as pq

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from tests.recovery import workload
from tests.recovery.workload import (
    BATCHES_PER_FILE,
    EVENTS_PER_BATCH,
    LINES_PER_BATCH,
    ORDERS_PER_BATCH,
)

Lines: TypeAlias = list[bytes]
# What an output is like, job by job: the same in every run that reads the same.
Outputs: TypeAlias = Mapping[str, object]

# Append-only: the same records in the same order.
_APPENDED = ("alerts", "totals", "sessions", "matched", "hot")
# What a table with a key says in the end; the numbers by which it grows never fall.
_UPSERTED = ("counts", "kept")
# Changelogs in full: each change fits what the ones before it have left.
_CHANGELOGS = ("changes", "joined")


def batches_of(folder: Path, fed: str) -> int:
    """How many batches were fed into a topic."""
    with open_broker(folder) as broker:
        return broker.last_epoch(fed, 0, "feeder") or 0


def compare(ours: Outputs, theirs: Outputs) -> None:
    """AssertionError unless both runs gave the same."""
    for name in ours.keys() | theirs.keys():
        assert ours.get(name) == theirs.get(name), (
            f"{name}: {_difference(ours.get(name), theirs.get(name))}"
        )
    assert all(ours.values()), f"nothing came of {[n for n, found in ours.items() if not found]}"


def outputs(folder: Path, batches: int) -> Outputs:
    """All that came out of a run that is over; AssertionError where something of it is wrong by
    itself."""
    with open_broker(folder) as broker:
        found: dict[str, object] = {name: records(broker, name, 0) for name in _APPENDED}
        found |= {name: latest(broker, name) for name in _UPSERTED}
        found |= {name: folded(records(broker, name, 0)) for name in _CHANGELOGS}
        found |= {
            f"paid {s} of {o}": rows
            for s in range(2)
            for o, rows in _paid(records(broker, "paid", s)).items()
        }
        found |= {f"copies {s}": records(broker, "copies", s) for s in range(2)}
        found["drawn"] = drawn(records(broker, "drawn", 0))
        _check_alerts(found["alerts"], batches)  # type: ignore[arg-type]
        _check_copies(found, batches)
        check_ticks(records(broker, "ticks", 0), batches * EVENTS_PER_BATCH)
        _check_archive(broker, batches)
        found["tailed"] = by_file(
            records(broker, "tailed", 0), batches * LINES_PER_BATCH, BATCHES_PER_FILE
        )
        found["letters"] = letters(records(broker, "_dead_letters", 0))
    found["lines"] = lines_of(folder)
    found["lake"] = lake(folder)
    return found | {table: rows_of(folder / "app.db", table) for table in ("hosts", "seen")}


def records(broker: Broker, topic: str, shard: int) -> Lines:
    """The values of all records that there are."""
    return [value for _, value in _with_keys(broker, topic, shard)]


def open_broker(folder: Path) -> closing[EmbeddedBroker]:
    return closing(EmbeddedBroker(folder / "data", fsync="none", clock=lambda: 0))


def _with_keys(broker: Broker, topic: str, shard: int) -> Iterator[tuple[bytes, bytes]]:
    offset = broker.begin_offset(topic, shard)
    while (found := broker.read(topic, shard, offset)) is not None:
        keys = [b""] * found.num_rows if found.keys is None else found.keys.to_pylist()
        yield from zip(keys, found.values.to_pylist(), strict=True)
        offset = found.next_offset


def latest(broker: Broker, topic: str) -> dict[bytes, bytes]:
    left: dict[bytes, tuple[int, bytes]] = {}
    for key, value in _with_keys(broker, topic, 0):
        n = json.loads(value)["n"]
        assert key not in left or left[key][0] < n, (
            f"{topic}: {key!r} falls to {n} from {left[key]}"
        )
        left[key] = n, value
    return {key: value for key, (_, value) in left.items()}


def folded(changes: Lines) -> Counter[str]:
    rows: Counter[str] = Counter()
    for change in map(json.loads, changes):
        gone, come = (json.dumps(change.get(image)) for image in ("before", "after"))
        if change["op"] == "d":
            assert rows[gone], f"{gone} goes, and is not there"
            rows[gone] -= 1
        else:
            rows[come] += 1
    return +rows


def _paid(rows: Lines) -> dict[int, Lines]:
    """By the shard of the order: orders of different shards lie among each other as they were
    read."""
    found: dict[int, Lines] = {0: [], 1: []}
    for row in rows:
        found[json.loads(row)["id"] % 2].append(row)
    return found


def drawn(rows: Lines) -> list[int]:
    """What chance has given is different in each run, and never the same twice."""
    found = [json.loads(row) for row in rows]
    assert len({(d["u"], d["r"]) for d in found}) == len(found)
    return [d["id"] for d in found]


def _check_alerts(lines: Lines, batches: int) -> None:
    alerts = [(a["rule"], a["id"]) for a in map(json.loads, lines)]
    assert len(alerts) == len(set(alerts)), "alerts were doubled"
    assert set(alerts) == expected_alerts(batches * EVENTS_PER_BATCH)


def _check_copies(found: Outputs, batches: int) -> None:
    for shard in range(2):
        wanted = [workload.order(shard, n) for n in range(batches * ORDERS_PER_BATCH)]
        assert found[f"copies {shard}"] == wanted, f"copies of shard {shard}"


def check_ticks(lines: Lines, events: int) -> None:
    """Which event falls into which second is for the clock to say; each falls into one."""
    ticks = [json.loads(line) for line in lines]
    assert len({t["window_end"] for t in ticks}) == len(ticks), (
        "a window of processing time came twice"
    )
    assert sum(t["n"] for t in ticks) == events


def _check_archive(broker: Broker, batches: int) -> None:
    """Retention has taken the first records, and no others."""
    begin = broker.begin_offset("archive", 0)
    ids = [json.loads(value)["id"] for value in records(broker, "archive", 0)]
    assert ids == list(range(begin, batches * EVENTS_PER_BATCH))


def by_file(lines: Lines, count: int, batches_per_file: int) -> Lines:
    """Those of several files lie among each other as they were read."""
    in_a_file = LINES_PER_BATCH * batches_per_file
    found = sorted(lines, key=lambda line: int(line.split()[1]) // in_a_file)
    assert found == [workload.line(n)[:-1] for n in range(count)], "lines of files"
    return found


def lines_of(folder: Path) -> Lines:
    """The lines of the files that a rule has written, in order."""
    files = sorted(
        p for p in (folder / "lines").rglob("*") if p.is_file() and not p.name.startswith(".")
    )
    return [line for p in files for line in p.read_bytes().splitlines()]


def lake(folder: Path) -> Lines:
    """The rows of Parquet files by partition, those of a partition in the order of its files'
    numbers."""
    files = (folder / "lake").glob("*/part-*.parquet")
    in_order = sorted(files, key=lambda p: (p.parent, int(p.stem.rpartition("-")[2])))
    return [
        f"{p.parent.name} {row}".encode()
        for p in in_order
        for row in pq.ParquetFile(p).read().to_pylist()
    ]


def letters(lines: Lines) -> set[tuple[object, ...]]:
    """Which records could not be read: a letter of each graph that reads them."""
    keys = ("graph", "source", "shard", "offset", "payload")
    found = [tuple(letter[k] for k in keys) for letter in map(json.loads, lines)]
    assert len(found) == len(set(found)), "a dead letter was doubled"
    return {letter[1:] for letter in found}


def rows_of(database: Path, table: str) -> list[tuple[object, ...]]:
    """The rows of a table: by its key, or in the order in which they were added."""
    order = "host" if table == "hosts" else "rowid"
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()


def expected_alerts(events: int) -> set[tuple[str, int]]:
    """The alerts, found by plain Python."""
    tests: dict[str, Callable[[str, int, object], bool]] = {
        "curl": lambda command, amount, host: "curl" in command.lower(),
        "shadow": lambda command, amount, host: "/etc/shadow" in command and amount > 10,
        "pattern": lambda command, amount, host: command.startswith(("bash -c", "base64 -d")),
        "hosts": lambda command, amount, host: host in ("h1", "h3") and 5 <= amount <= 9,
        "null": lambda command, amount, host: host is None,
    }
    found = set()
    for number in range(events):
        e = workload.event(number)
        command, amount, host = str(e["command"]), int(str(e["amount"])), e["host"]
        found |= {(rule, number) for rule, hits in tests.items() if hits(command, amount, host)}
    return found


def _difference(ours: object, theirs: object) -> str:
    """The first of what differs."""
    if isinstance(ours, list) and isinstance(theirs, list):
        at = next(
            (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        return (
            f"{len(ours)} and {len(theirs)} rows, from row {at} on {ours[at : at + 3]}, not"
            f" {theirs[at : at + 3]}"
        )
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return str(
            {
                k: (ours.get(k), theirs.get(k))
                for k in ours.keys() | theirs.keys()
                if ours.get(k) != theirs.get(k)
            }
        )
    return f"{ours}, not {theirs}"
