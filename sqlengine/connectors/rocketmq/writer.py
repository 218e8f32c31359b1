"""The name by which messages of a graph are known in queues that others write to, too."""

from __future__ import annotations

from xxhash import xxh64_hexdigest

from planner.catalog import Table
from sqlengine.connectors.environment import Environment, writer_of
from sqlengine.connectors.rocketmq.options import CLUSTER


def writer_name(table: Table, environment: Environment) -> str | None:
    """Returns the writer of a table's messages, the same after a restart; None where rows may come
    twice."""
    if not environment.once:
        return None
    # Not how the cluster is reached: that may change, and some of it is secret.
    own = {k: v for k, v in table.options.items() if k == "topic" or k not in CLUSTER}
    definition = [f"{k}={v}" for k, v in sorted(own.items())]
    return xxh64_hexdigest(writer_of(environment.outside_writer, table, *definition).encode())
