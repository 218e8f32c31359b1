"""Delivery at least once: epochs are not written down, and rows since the last checkpoint come
again after a death."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.system.durability import Delivery
from tests.simulation import workload
from tests.simulation.checks import check_none_lost, rows_by_job
from tests.simulation.life import Life, make
from tests.simulation.node import Node
from tests.simulation.world import World

NEVER = 1 << 60


@pytest.mark.parametrize(
    "deliveries", [("at-least-once",), ("at-least-once", "exactly-once")], ids=" then ".join
)
def test_none_is_lost_and_some_come_again(
    deliveries: tuple[Delivery, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = 0
    for seed in range(8):
        life = make(seed)
        _start_with(monkeypatch, life, deliveries)
        try:
            with life.databases():
                life.run()
                again += 0 if life.lossy else check_none_lost(life)
        finally:
            for node in life.nodes:
                node.abandon()
    assert again > 0


def _start_with(patch: pytest.MonkeyPatch, life: Life, deliveries: tuple[Delivery, ...]) -> None:
    """Each start of the first server takes the next of them."""
    node, turns = life.nodes[0], cycle(deliveries)
    start = node.start

    def begin() -> None:
        node.config = replace(node.config, delivery=next(turns))
        start()

    patch.setattr(node, "start", begin)


@pytest.mark.parametrize("then", ["at-least-once", "exactly-once"])
def test_sinks_that_know_epochs_take_those_of_the_next_life(then: Delivery) -> None:
    world = World(0)
    config = Config(
        data=Path("/a/data"), delivery="at-least-once", checkpoint_ms=NEVER, checkpoint_rows=NEVER
    )
    node = Node(world, "a", config, workload.TOPICS, kills=0)
    node.start()
    _submit(node, "tables", workload.TABLES.replace("{fsync}", "none"))
    _submit(node, "files", workload.JOBS["files"])
    _submit(node, "hot", workload.HOT.format(1))
    assert node.engine is not None
    assert "== at least once ==" in node.engine.explain("files")
    events = [workload.event(0, number, late=False) for number in range(40)]
    for event in events[:30]:
        _append(node, event)
    node.end()
    node.config = replace(config, delivery=then)
    node.start()
    for event in events[30:]:
        _append(node, event)
    found = rows_by_job(node)
    node.abandon()
    for job in ("files", "hot"):
        assert set(found[job]) == set(workload.expected(job, [events, []])), job


def _submit(node: Node, name: str, sql: str) -> None:
    assert node.engine is not None
    node.engine.submit(name, sql)
    node.threads.settle()


def _append(node: Node, event: workload.Event) -> None:
    """Each in an epoch of its own."""
    assert node.engine is not None
    node.engine.broker.append("events", 0, [event.line()], timestamp_ms=0)
    node.threads.settle()
