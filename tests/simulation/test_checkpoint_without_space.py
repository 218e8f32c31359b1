"""A checkpoint that found no space says so once; the next one, also the last of a server, holds
what it did not write."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.snapshots.checkpoints import CheckpointMetadata, Checkpoints
from sqlengine.state.topic_store import TopicStores
from tests.simulation.disk import SimulatedDisk
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import World


def _position(epoch: int) -> CheckpointMetadata:
    return CheckpointMetadata("main", epoch, 1, epoch, {}, [], [], {})


def _write_on(checkpoints: Checkpoints) -> None:
    """One after the other: a few bytes may fit in what is left."""
    for epoch in range(3, 100):
        checkpoints.finish(_position(epoch), {}, 0)


def test_the_last_checkpoint_is_made_although_the_one_before_found_no_space() -> None:
    world = World(0)
    disk, line = (
        SimulatedDisk(world, "a", lambda: False),
        SimulatedThreads(world).serial_executor("checkpoint"),
    )
    broker = EmbeddedBroker(Path("/data"), clock=world.clock, disk=disk)
    stores = TopicStores(broker, world.clock)
    checkpoints = Checkpoints(stores.open("main"), 1, 1, line)
    disk.full = lambda _: True
    checkpoints.begin(_position(1), {}, 0)
    line.turn()  # type: ignore[attr-defined]
    disk.full = lambda _: False
    checkpoints.finish(_position(2), {}, 0)
    loaded = stores.open("main").load()
    assert loaded is not None
    assert loaded.position["epoch"] == 2
    disk.full = lambda _: True
    with pytest.raises(ServiceError, match="could not be written"):
        _write_on(checkpoints)
