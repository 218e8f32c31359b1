"""The delivery of a job's rows: the capabilities of the tables that it writes to, for EXPLAIN
and for the dry run of a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.capabilities import DeliveryGuarantee, SinkCapabilities
from planner.catalog import Table
from planner.logical import LogicalPlan, Sink
from sqlengine.connectors.registry import capabilities_of


@dataclass(frozen=True)
class Delivery:
    """A table that is written to, with its capabilities as a sink."""

    table: Table
    sink: SinkCapabilities

    @property
    def at_least_once(self) -> bool:
        """True if rows are visible again after a crash."""
        return self.sink.guarantee is DeliveryGuarantee.AT_LEAST_ONCE

    def __str__(self) -> str:
        """`out (topic): exactly-once, changelogMode=[I], …`."""
        condition = f"; {self.sink.condition}" if self.sink.condition else ""
        return (
            f"{self.table.display} ({self.table.connector}): {self.sink.guarantee.value},"
            f" changelogMode={self.sink.changelog}{condition}"
        )

    def as_json(self) -> dict[str, object]:
        """Returns the fields as JSON objects have them."""
        return {
            "table": self.table.display,
            "connector": self.table.connector,
            "guarantee": self.sink.guarantee.value,
            "condition": self.sink.condition,
            "changelog_mode": str(self.sink.changelog),
        }


def deliveries_of(plans: Iterable[LogicalPlan], *, once: bool = True) -> tuple[Delivery, ...]:
    """Returns the tables that these statements write to, by name; each once.

    Where the server does not deliver `once`, every sink is at-least-once."""
    tables = {p.table.name: p.table for p in plans if isinstance(p, Sink) and p.table is not None}
    sinks = ((table, capabilities_of(table).sink) for _, table in sorted(tables.items()))
    return tuple(
        Delivery(table, sink if once else _repeating(sink))
        for table, sink in sinks
        if sink is not None
    )


def _repeating(sink: SinkCapabilities) -> SinkCapabilities:
    """Returns the capabilities in a server that processes rows again after a crash."""
    condition = "the server runs with --delivery at-least-once"
    return replace(sink, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, condition=condition)
