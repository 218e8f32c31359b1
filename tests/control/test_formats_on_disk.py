"""Everything durable carries the number of its format: a server that does not know the number says
which, and what to do, and reads nothing of it wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parser.errors import SqlError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.snapshots.checkpoints import LAYOUT
from sqlengine.state import parts
from sqlengine.state import store as stores
from sqlengine.state.parts import TablePart
from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.table import METADATA_KEY
from tests.engine.by_hand import EVENTS, append, open_engine, step

COUNT = """CREATE TEMPORARY TABLE a (host STRING, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO a SELECT host, COUNT(*) FROM events GROUP BY host"""


def record(topic: str, key: bytes) -> Callable[[Path], None]:
    """Puts a record of another format behind the others: nothing else of it is as this version
    knows it."""

    def write(data: Path) -> None:
        broker = EmbeddedBroker(data, fsync="none", clock=lambda: 0)
        value = json.dumps({"format": 99, "graph": ["main"], "epoch": "next", "name": 7}).encode()
        broker.append(topic, 0, [value], keys=[key], timestamp_ms=0)
        broker.close()

    return write


def head(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Changes what the checkpoint of the main graph says."""

    def write(data: Path) -> None:
        store = RocksStore(data / "graphs" / "main")
        head = store._db.get(b"head")
        assert isinstance(head, bytes)
        about = json.loads(head)
        change(about)
        store._db.put(b"head", json.dumps(about).encode())
        store.close()

    return write


def without_a_table(about: dict[str, Any]) -> None:
    """As if the operator had kept one table less when it was written."""
    del about["tables"][next(name for name in about["tables"] if name.endswith("/groups"))]


CASES = {
    "job log": (
        record("_jobs", b"job:x"),
        "record 'job:x' of the job log has format 99, this version reads 1",
    ),
    "epoch": (record("_epochs", b"main"), "an epoch record has format 99, this version reads 1"),
    "store": (head(lambda a: a.update(format=99)), "has format 99, this version reads 1"),
    "checkpoint": (
        head(lambda a: a["position"].update(format=2)),
        "a checkpoint has format 2, this version reads 3",
    ),
    "layout": (
        head(lambda a: a["position"].update(layout=1)),
        f"a checkpoint has layout 1, this version reads {LAYOUT}",
    ),
    "table": (head(without_a_table), "/groups' is not stored"),
}


@pytest.mark.parametrize("case", CASES)
def test_another_number_is_refused_with_the_remedy(case: str, tmp_path: Path) -> None:
    spoil, message = CASES[case]
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("count", COUNT)
    append(engine, 1, 2, 3)
    step(engine)
    engine.close()
    spoil(tmp_path / "data")
    with pytest.raises(SqlError) as refused:
        open_engine(tmp_path)
    assert message in refused.value.message, refused.value.message
    assert "the version that wrote" in str(refused.value.hint)


def test_rows_of_another_format_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = parts.encode

    def older(part: TablePart) -> bytes:
        about = json.loads((part.puts.schema.metadata or {})[METADATA_KEY])
        puts = part.puts.replace_schema_metadata({METADATA_KEY: json.dumps(about | {"format": 0})})
        return plain(TablePart(puts, part.removed))

    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("count", COUNT)
    append(engine, 1)
    step(engine)
    monkeypatch.setattr(stores, "encode", older)
    engine.close()
    with pytest.raises(SqlError, match="has format 0, this version reads 1"):
        open_engine(tmp_path)
