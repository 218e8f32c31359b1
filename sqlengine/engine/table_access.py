"""Opens the tables of plans beside any graph, to ask about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.logical import LogicalPlan, Scan, Sink
from sqlengine.broker.auto_create import NewTopic
from sqlengine.connectors.base import Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import missing_topic
from sqlengine.engine.savepoint_sources import why_unreadable
from sqlengine.executors.dimensions.opening import open_scan
from sqlengine.graphs.host import GraphHost
from sqlengine.jobs.planning import PlannedJob


class TableAccess:
    """Opens the tables of one engine, beside the graphs."""

    def __init__(self, host: GraphHost) -> None:
        self._host = host

    def why_unreadable(self, scan: Scan, positions: Mapping[str, int]) -> str | None:
        """Returns the reason why a table cannot be read from these positions (of a savepoint) on;
        None if it can."""
        return why_unreadable(scan, positions, self.environment("savepoint"))

    def open_source(self, scan: Scan) -> Source:
        """Opens the table of a scan, to ask where it can be read."""
        return open_scan(scan, self.environment("positions"))

    def environment(self, name: str) -> Environment:
        """Returns what connectors need, for a reader or writer of this name."""
        host = self._host
        return Environment(
            host.broker,
            host.machine.clock,
            name,
            memory=host.memory_tables,
            auto_create=host.config.auto_create,
            openings=host.openings,
            files=host.config.file_access,
            network=host.config.network_access,
            secrets=host.config.secret_values,
            dimensions=host.config.dimensions,
            any_times=True,
        )

    def missing_topics(self, plan: PlannedJob) -> tuple[NewTopic, ...]:
        """Returns the topics that opening the tables of a plan would create, each once."""
        environment = self.environment("missing")
        tables = [(scan.table, False) for sink in plan.sinks for scan in scans(sink)]
        tables += [(s.table, True) for s in plan.sinks if s.table is not None]
        missing = (missing_topic(table, environment, writes=w) for table, w in tables)
        return tuple({new.name: new for new in missing if new is not None}.values())


def scans(plan: Sink) -> Iterator[Scan]:
    """Yields the scans below a sink."""
    waiting: list[LogicalPlan] = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan):
            yield node
        waiting += node.inputs
