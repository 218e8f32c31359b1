"""What came out of a run with instances that were killed, and what must hold of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.recovery.cluster_workload import (
    BATCHES_PER_FILE,
    LINES_PER_BATCH,
    ROWS_PER_BATCH,
    SHARDS,
)
from tests.recovery.outcome import (
    Outputs,
    by_file,
    check_ticks,
    drawn,
    folded,
    lake,
    latest,
    letters,
    lines_of,
    open_broker,
    records,
    rows_of,
)


def outputs(folder: Path, batches: int) -> Outputs:
    """All that came out of a run that is over; AssertionError where something of it is wrong by
    itself."""
    with open_broker(folder) as broker:
        found: dict[str, object] = {}
        for name in ("found", "hot"):
            found |= _by_shard(
                name, (json.loads(v) for v in records(broker, name, 0)), lambda row: int(row["id"])
            )
        found |= _by_shard("drawn", drawn(records(broker, "drawn", 0)), lambda number: number)
        found["minutes"] = Counter(records(broker, "minutes", 0))
        found |= {f"pairs {s}": Counter(records(broker, "pairs", s)) for s in range(2)}
        found["grown"] = folded(records(broker, "grown", 0))
        found |= {name: latest(broker, name) for name in ("sums", "known")}
        check_ticks(records(broker, "ticks", 0), batches * ROWS_PER_BATCH * SHARDS)
        for name in ("tailed", "echoed"):
            found[name] = by_file(
                records(broker, name, 0), batches * LINES_PER_BATCH, BATCHES_PER_FILE
            )
        found["letters"] = letters(records(broker, "_dead_letters", 0))
    return {**found, **_beside(folder)}


def _beside(folder: Path) -> Outputs:
    """What jobs in the server's process have written into files and SQLite."""
    partitions: dict[str, list[bytes]] = {}
    for row in lake(folder):
        partitions.setdefault(row.split()[0].decode(), []).append(row)
    found: dict[str, object] = {"hosts": rows_of(folder / "app.db", "hosts")}
    found |= _by_shard("seen", rows_of(folder / "app.db", "seen"), lambda row: int(str(row[0])))
    found |= _by_shard("lines", lines_of(folder), lambda line: int(line.split(b",")[0]))
    for partition, rows in partitions.items():
        found |= _by_shard(f"lake {partition}", rows, _id_in_lake)
    return found


def _id_in_lake(row: bytes) -> int:
    return int(row.partition(b"'id': ")[2].strip(b"}").partition(b",")[0])


def _by_shard(name: str, rows: Iterable[object], id_of: Callable[..., int]) -> dict[str, object]:
    """Rows of different shards lie among each other as they were read."""
    found: dict[str, list[object]] = {}
    for row in rows:
        found.setdefault(f"{name} of shard {id_of(row) % SHARDS}", []).append(row)
    return dict(found)
