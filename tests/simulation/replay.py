"""An undisturbed run with the same cuts: all epochs that were written down, from the first on, into
empty sinks.

What comes out must be what came out in the life, byte by byte; only rows of different graphs may
lie otherwise among each other, since each graph is by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine.engine import Engine
from sqlengine.executors.epochs import EPOCHS, decode_record
from sqlengine.functions.pool import POOL
from sqlengine.jobs.job import MAIN
from sqlengine.machine import Machine
from sqlengine.state.topic_store import CHECKPOINTS, has_topic
from tests.simulation.checks import files, folder_of, names, records
from tests.simulation.database import SimulatedDatabase, databases
from tests.simulation.disk import SimulatedDisk
from tests.simulation.planner import RememberingPlanner
from tests.simulation.stores import SimulatedStores
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.node import Node

# What comes out and is not read again: `mids` is input, too.
OUTPUTS = ("alerts", "totals", "joined", "latest", "ticks", "drawn")


def check_replay(node: Node) -> None:
    """AssertionError where the undisturbed run gives something else."""
    assert node.engine is not None
    world = World(node.world.seed)
    world.now_ms = node.world.now_ms
    disk = node.disk.copy(world)
    for name in disk.names(folder_of(node)):
        disk.remove(folder_of(node) / name)
    data, threads = node.config.data, SimulatedThreads(world)
    broker = EmbeddedBroker(data, clock=world.clock, disk=disk, threads=threads)
    graphs = _graphs(broker)
    for name in OUTPUTS:
        _empty(broker, name)
    if has_topic(broker):
        broker.delete_topic(CHECKPOINTS)
    broker.close()
    stores = SimulatedStores(world, node.name, lambda: False)
    for graph in graphs:
        stores.open(graph)
    machine = Machine(
        world.clock, disk, threads, lambda _: stores, RememberingPlanner, caches=False
    )
    database = SimulatedDatabase(world, node.name, lambda: False)
    with databases({node.name: database}):
        engine = Engine(replace(node.config, checkpoints="rocksdb"), machine)
    try:
        ours = _came_out(node.engine, node.disk, node.database, node)
        theirs = _came_out(engine, disk, database, node)
        for name in ours.keys() | theirs.keys():
            assert ours.get(name) == theirs.get(name), (
                f"{name} differs from an undisturbed run with the same epochs"
            )
    finally:
        POOL.leave(engine)


def _graphs(broker: Broker) -> list[str]:
    found = {MAIN: None}
    offset = 0
    while (read := broker.read(EPOCHS, 0, offset)) is not None:
        found |= dict.fromkeys(decode_record(value).graph for value in read.values.to_pylist())
        offset = read.next_offset
    return list(found)


def _empty(broker: EmbeddedBroker, name: str) -> None:
    if name in {t.name for t in broker.topics()}:
        known = broker.topic(name)
        broker.delete_topic(name)
        broker.create_topic(name, known.shards, compacted=known.compacted)


def _came_out(
    engine: Engine, disk: SimulatedDisk, database: SimulatedDatabase, node: Node
) -> dict[str, object]:
    """By topic and shard; of the topic that many graphs write to by job."""
    found: dict[str, object] = {
        table: sorted(database.rows(table)) for table in ("stored", "added")
    }
    for line in records(engine, "alerts", 0):
        rows = found.setdefault(f"alerts of {json.loads(line)['job']}", [])
        assert isinstance(rows, list)
        rows.append(line)
    for topic in ("totals", "joined", "ticks", "drawn"):
        for shard in range(engine.broker.topic(topic).shards):
            found[f"{topic} {shard}"] = records(engine, topic, shard)
    if "latest" in names(engine):
        found["latest"] = engine.broker.read_latest("latest")
    return found | {str(path): disk.read(path) for path in files(node, disk)}
