"""Opens the sources of scans: tables, and versions of tables that rows are looked up in."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from planner.logical import AskedScan, LookedUpScan, MappedScan, Scan
from sqlengine.connectors import registry
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.naming import naming
from sqlengine.connectors.boundary.opening import opened_source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment, is_rehearsal
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.dimensions.source import MappedSource


def open_scan(
    scan: Scan, environment: Environment, *, patient: bool = False, load: bool = False
) -> Source:
    """Opens the source of a scan behind the boundary, as `registry.open_scan` does for a table.
    With `load` a table of look-ups has a version then."""
    if not isinstance(scan, LookedUpScan):
        return registry.open_scan(scan, environment, patient=patient)
    registry.validate(scan.table)
    connector = registry.connector_of(scan.table)

    def work() -> Source:
        if isinstance(scan, MappedScan):
            return MappedSource(scan, environment, load=load)
        assert isinstance(scan, AskedScan)
        # A recovery goes on without a table that is away: it may not have to be asked.
        if is_rehearsal() or (load and not patient):
            TableAsker(scan, environment).check()
        return NothingFromIt()

    # What comes are names of versions: metadata are in their rows.
    told = replace(scan, table=replace(scan.table, metadata=()))
    with naming(scan.table):
        return opened_source(told, connector, environment, work, patient=patient)


class NothingFromIt(Source):
    """Stands for the source of a table that is asked for rows: none comes by itself."""

    bounded: ClassVar[bool] = True

    def shards(self) -> list[str]:
        return []

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return 0

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        return None

    def close(self) -> None: ...
