"""An instance that has lost a part and has not heard of it."""

from __future__ import annotations

from pathlib import Path

from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.cluster.control_log import Done, Pause, ReportTopic
from sqlengine.cluster.instance import Instance
from sqlengine.executors.build import OperatorFactory
from sqlengine.machine import THIS
from sqlengine.system.spawning import Place
from tests.cluster.led import ALL, SHARED, Led, led

LONG_MS = 60_000


def test_only_its_owner_tells_how_far_a_part_is(tmp_path: Path) -> None:
    with led(tmp_path) as group:
        group.engine.submit("all", ALL)
        group.write(1, 2)
        slow, broker = _instance(group, "slow"), group.engine.broker
        while slow.turn():
            pass
        told = ReportTopic(broker, SHARED)
        number = group.graph.control.append(Pause(), 0)
        slow.turn()
        assert {(d.number, d.subtask) for d in _done(told)} == {(number, 0), (number, 1)}
        broker.leave(group.graph.group, "slow")  # as if it was not heard of for a while
        broker.join(group.graph.group, "quick", [group.graph.group], session_ms=LONG_MS)
        group.graph.control.append(Pause(), 0)
        slow.turn()
        assert set(slow.subtasks) == {0, 1}, "it knows of nothing"
        assert _done(told) == []


def _instance(group: Led, name: str) -> Instance:
    config, place = group.config, Place(name, SHARED, LONG_MS)
    stores = THIS.stores(config.data / "parts")

    def ask(question: bytes, again: bool) -> bytes:
        return handle_request(group.engine.broker, question)

    return Instance(place, ask, config, THIS, OperatorFactory(config.rules), stores)


def _done(told: ReportTopic) -> list[Done]:
    return [entry for entry in told.read() if isinstance(entry, Done)]
