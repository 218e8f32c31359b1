"""The name by which messages of a graph are known in queues that others write to, too."""

from __future__ import annotations

import os
from typing import Final

from xxhash import xxh64_hexdigest

from planner.catalog import Table
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import TopicNotFound
from sqlengine.connectors.environment import Environment, writer_of
from sqlengine.connectors.rocketmq.options import CLUSTER

# Keeps a name of the data folder, chosen by chance: graphs are called alike in all of them.
_TOPIC: Final = "_rocketmq"
_KEY: Final = b"folder"


def writer_name(table: Table, environment: Environment) -> str | None:
    """Returns the writer of a table's messages, the same after a restart; None where rows may come
    twice."""
    if not environment.once:
        return None
    # Not how the cluster is reached: that may change, and some of it is secret.
    own = {k: v for k, v in table.options.items() if k == "topic" or k not in CLUSTER}
    writer = writer_of(environment.writer, table, *(f"{k}={v}" for k, v in sorted(own.items())))
    folder = "" if environment.broker is None else _folder_name(environment.broker)
    return xxh64_hexdigest(f"{folder}/{writer}".encode())


def _folder_name(broker: Broker) -> str:
    """Returns the name of the data folder, which is made where it has none."""
    try:
        found = broker.lookup(_TOPIC, _KEY)
    except TopicNotFound:
        broker.create_topic(_TOPIC, 1, compacted=True, if_not_exists=True)
        found = None
    if found is None:
        # Of several that come at the same time one is the first: the others add nothing.
        broker.append(
            _TOPIC,
            0,
            [os.urandom(8).hex().encode()],
            keys=[_KEY],
            timestamp_ms=0,
            writer="name",
            epoch=0,
        )
        found = broker.lookup(_TOPIC, _KEY)
    assert found is not None
    return found.value.decode()
