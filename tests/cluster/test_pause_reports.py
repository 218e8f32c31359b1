"""An instance that has lost a subtask and has not heard of it."""

from __future__ import annotations

from pathlib import Path

from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.cluster.control_log import Done, Pause, ReportTopic
from sqlengine.cluster.instance import Instance
from sqlengine.executors.build import OperatorFactory
from sqlengine.machine import THIS
from sqlengine.system.spawning import Place
from tests.cluster.leader import ALL, SHARED, LeaderHarness, leading

LONG_MS = 60_000


def test_only_its_owner_tells_how_far_a_part_is(tmp_path: Path) -> None:
    with leading(tmp_path) as harness:
        harness.engine.submit("all", ALL)
        harness.write(1, 2)
        slow, broker = _instance(harness, "slow"), harness.engine.broker
        while slow.turn():
            pass
        reports = ReportTopic(broker, SHARED)
        number = harness.graph.control.append(Pause(), 0)
        slow.turn()
        assert {(d.number, d.subtask) for d in _done(reports)} == {(number, 0), (number, 1)}
        broker.leave(harness.graph.group, "slow")  # as if it was not heard of for a while
        broker.join(harness.graph.group, "quick", [harness.graph.group], session_ms=LONG_MS)
        harness.graph.control.append(Pause(), 0)
        slow.turn()
        assert set(slow.subtasks) == {0, 1}, "it knows of nothing"
        assert _done(reports) == []


def _instance(harness: LeaderHarness, name: str) -> Instance:
    config, place = harness.config, Place(name, SHARED, LONG_MS)
    stores = THIS.stores(config.data / "parts")

    def ask(question: bytes, again: bool) -> bytes:
        return handle_request(harness.engine.broker, question)

    return Instance(place, ask, config, THIS, OperatorFactory(config.rules), stores)


def _done(reports: ReportTopic) -> list[Done]:
    return [entry for entry in reports.read() if isinstance(entry, Done)]
