"""Checkpoints of several graphs in one compacted topic, over restarts and compactions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.state import store as store_module
from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.topic_store import CHECKPOINTS, TopicStores
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, step
from tests.state.test_store import count, counts, forget


def test_graphs_live_on_in_one_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_FOLD_AT_LEAST", 20)
    monkeypatch.setattr(store_module, "_ROWS_PER_BLOB", 4)
    tables = {"main": counts(), "own": counts()}
    for epoch in range(20):
        broker = EmbeddedBroker(tmp_path, segment_bytes=4096)
        stores = TopicStores(broker, lambda: 0)
        assert stores.names() == (sorted(tables) if epoch else [])
        for name in tables:
            store = stores.open(name)
            held, table = store.load(), counts()
            checkpointer = Checkpointer(store)
            if held is not None:
                assert held.tables["counts"].equals(tables[name].dump())
                assert held.position == {"epoch": epoch - 1}
                table.load(held.tables["counts"])
                checkpointer.adopt(held.position, {"counts": table})
            count(table, [epoch, epoch + 1, 99])
            forget(table, [epoch - 2] if epoch > 2 else [])
            checkpointer.begin({"epoch": epoch}, {"counts": table})
            tables[name] = table
        if epoch % 5 == 4:
            broker.compact(CHECKPOINTS)
        broker.close()
    broker = EmbeddedBroker(tmp_path)
    stores = TopicStores(broker, lambda: 0)
    stores.remove("own")
    assert stores.names() == ["main"]
    assert stores.open("own").load() is None
    broker.close()


def test_an_engine_recovers_from_a_topic(tmp_path: Path) -> None:
    config = Config(data=tmp_path, checkpoint_ms=1 << 60, checkpoints="topic")
    engine = Engine(config)
    for topic in ("events", "out"):
        engine.broker.create_topic(topic)
    engine.submit("tables", EVENTS)
    engine.submit("window", WINDOW.format(name="w"))
    append(engine, 100, 200)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 1300)
    step(engine)
    assert of_job(engine, "w") == [2]
    die(engine)
    engine.broker.close()
    engine = Engine(config)
    assert not (tmp_path / "graphs").exists()
    append(engine, 2100)
    step(engine)
    assert of_job(engine, "w") == [2, 1]
    engine.close()
    with pytest.raises(ServiceError, match="are not in rocksdb") as refused:
        Engine(replace(config, checkpoints="rocksdb"))
    assert refused.value.hint == "start with --checkpoints topic, as it was written"
