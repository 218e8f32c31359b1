"""Sources of a job that starts from a savepoint: can they be read on, and from where."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from planner.logical import Scan
from sqlengine.connectors.environment import Environment
from sqlengine.executors.dimensions.opening import open_scan
from sqlengine.snapshots.savepoints import Restoration


def lookup_positions(
    restoration: Restoration, environment: Environment
) -> dict[str, dict[str, int]]:
    """Returns the positions of lookup sources, by scan and shard: behind the version of the table
    that the savepoint has."""
    positions = {}
    for name, lines in restoration.file_versions.items():
        scan = restoration.graph.nodes[name].plan
        assert isinstance(scan, Scan)
        with closing(open_scan(scan, environment)) as source:
            assert source.full_cache is not None
            at = source.full_cache.restore(lines, exclusive=True)
            assert at is not None
            positions[name] = dict.fromkeys(source.shards(), at)
    return positions


def why_unreadable(
    scan: Scan, positions: Mapping[str, int], environment: Environment
) -> str | None:
    """Returns the reason why a table cannot be read from these positions on; None if it can: a
    shard is missing, or its records have expired."""
    with closing(open_scan(scan, environment)) as source:
        source.resume(positions, {})
        shards = set(source.shards())
        for shard, offset in positions.items():
            if shard not in shards:
                return f"'{shard}' is not there any more"
            if (reason := source.expired(shard, offset)) is not None:
                return reason
    return None
