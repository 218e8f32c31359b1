"""Rows as sinks store them, made in tasks: the driver commits them. Does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from planner.catalog import Table
from planner.graph.physical import PhysicalPlan
from sqlengine.batch import Batch
from sqlengine.connectors.encoded import Encoded, RowEncoder, definition_digest
from sqlengine.connectors.registry import connector_of

# The encoders that were used last in this worker, by the digest of their table.
_KEPT: Final = 64
_encoders: dict[str, RowEncoder | None] = {}


@dataclass(frozen=True)
class SinkTable:
    """A table to which tasks give rows with what its sink stores of them."""

    table: Table
    digest: str

    def encoded(self, rows: Batch) -> Encoded | None:
        """Returns what the sink stores of rows. None where it has to see them: it makes something
        of its own of them, or not all of them can be stored. Which these are it finds itself."""
        try:
            encoder = self._encoder()
            return None if encoder is None else Encoded(self.digest, encoder.encode(rows))
        except Exception:  # noqa: BLE001  a format may raise anything for a value
            return None

    def _encoder(self) -> RowEncoder | None:
        if self.digest not in _encoders:
            for oldest in list(_encoders)[: 1 - _KEPT]:
                del _encoders[oldest]
            _encoders[self.digest] = connector_of(self.table).row_encoder(self.table)
        return _encoders[self.digest]


def sink_tables(sinks: Mapping[int, str], plan: PhysicalPlan) -> dict[int, SinkTable]:
    """Returns the tables of the sinks of a plan, by output port."""
    tables = {port: plan.sinks[name].sink.table for port, name in sinks.items()}
    return {
        port: SinkTable(table, definition_digest(table))
        for port, table in tables.items()
        if table is not None
    }
