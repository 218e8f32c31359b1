"""Opens the sources of scans: tables, and versions of tables that rows are looked up in."""

from __future__ import annotations

from dataclasses import replace

from planner.logical import MappedScan, Scan
from sqlengine.connectors import registry
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.opening import opened_source
from sqlengine.connectors.environment import Environment
from sqlengine.executors.dimensions.source import MappedSource


def open_scan(
    scan: Scan, environment: Environment, *, patient: bool = False, load: bool = False
) -> Source:
    """Opens the source of a scan behind the boundary, as `registry.open_scan` does for a table.
    With `load` a table of look-ups has a version then."""
    if not isinstance(scan, MappedScan):
        return registry.open_scan(scan, environment, patient=patient)
    registry.validate(scan.table)
    connector = registry.connector_of(scan.table)

    def work() -> MappedSource:
        return MappedSource(scan, environment, load=load)

    # What comes are names of versions: metadata are in their rows.
    told = replace(scan, table=replace(scan.table, metadata=()))
    return opened_source(told, connector, environment, work, patient=patient)
