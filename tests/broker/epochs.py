"""What holds for the epochs of a writer, whichever broker has the topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker


def values(broker: Broker) -> list[bytes]:
    """All values of shard 0 of the topic t."""
    found, offset = list[bytes](), 0
    while (records := broker.read("t", 0, offset)) is not None:
        found += records.values.to_pylist()
        offset = records.next_offset
    return found


def require_once_over_restarts(opens: Callable[[Path], EmbeddedBroker], folder: Path) -> None:
    """An epoch is appended once, in whichever life of the broker."""
    for life in range(3):
        broker = opens(folder)
        broker.create_topic("t", 2, if_not_exists=True)
        for epoch in range(5 * life + 5):
            appended = broker.append(
                "t", 0, [b"%d" % epoch], timestamp_ms=0, writer="graph", epoch=epoch
            )
            assert appended.duplicate == (epoch < 5 * life)
        assert broker.last_epoch("t", 0, "graph") == 5 * life + 4
        assert broker.last_epoch("t", 0, "other") is broker.last_epoch("t", 1, "graph") is None
        assert values(broker) == [b"%d" % epoch for epoch in range(5 * life + 5)]
        broker.close()
