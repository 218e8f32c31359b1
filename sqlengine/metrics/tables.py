"""Metrics of open tables: what is held for look-ups, and the systems behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sqlengine.connectors.full_cache import CacheStatus
from sqlengine.connectors.health import Health
from sqlengine.connectors.receivers.worker import ReceiverView
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.totals import Rising

# What connectors count of their connections, with their help texts.
_OF_CONNECTIONS: Final = {
    "errors": "Errors that a system, or its client, told",
    "retries": "Attempts after one that failed",
    "reconnects": "Times that rows went on after an error",
    "conditions": "Conditions by which a system left out rows, as it was asked to",
}
# What receivers count, with their help texts.
_OF_RECEIVERS: Final = {
    "messages": "Messages that were taken",
    "bytes": "Bytes of these",
    "repeated": "Messages left out since their keys had come before",
    "unwanted": "Messages dropped since no table asks for them",
    "connections": "Connections that were made",
    "failures": "Connections that were lost, or could not be made",
}


def _healths(graphs: Iterable[ManagedGraph]) -> dict[tuple[str, str, str], dict[str, Health]]:
    """Returns what open tables tell of their connections, by graph, table and direction: jobs may
    have tables of one name, each with an id."""
    found: dict[tuple[str, str, str], dict[str, Health]] = defaultdict(dict)
    for graph in graphs:
        for name, running in list(graph.runner.inputs.running.items()):
            if running.source.health is not None:
                of = graph.name, running.scan.table.display, "in"
                found[of][name] = running.source.health
        plan = graph.runner.executor.plan
        for name, sink in list(graph.runner.outputs.running.items()):
            table = plan.sinks[name].sink.table if name in plan.sinks else None
            if sink.health is not None and table is not None:
                found[graph.name, table.display, "out"][name] = sink.health
    return found


def lookups(graphs: Sequence[ManagedGraph], rising: Rising) -> Iterator[Metric]:
    """Yields what tables hold that rows are looked up in, by graph."""
    labels = ["graph", "table"]
    rows = GaugeMetricFamily(
        "sqlengine_lookup_rows", "Rows of the version of a table", labels=labels
    )
    versions = CounterMetricFamily(
        "sqlengine_lookup_versions", "Versions of a table that came", labels=labels
    )
    failures = CounterMetricFamily(
        "sqlengine_lookup_failures", "Versions that could not be made", labels=labels
    )
    found: dict[tuple[str, str], dict[str, CacheStatus]] = defaultdict(dict)
    for graph in graphs:
        for name, running in list(graph.runner.inputs.running.items()):
            if running.full_cache is not None:
                found[graph.name, running.scan.table.display][name] = running.full_cache.status
    for of, tables in found.items():
        rows.add_metric(of, sum(status.rows for status in tables.values()))
        came = {name: float(status.versions) for name, status in tables.items()}
        versions.add_metric(of, rising.total(f"versions {' '.join(of)}", came))
        failed = {name: float(status.failures) for name, status in tables.items()}
        failures.add_metric(of, rising.total(f"failures {' '.join(of)}", failed))
    yield from (rows, versions, failures)


def connections(graphs: Iterable[ManagedGraph], rising: Rising) -> Iterator[Metric]:
    """Yields how open tables do with the systems behind them, by graph; only of connectors that
    tell."""
    families = {
        name: CounterMetricFamily(
            f"sqlengine_connector_{name}", text, labels=["graph", "table", "direction"]
        )
        for name, text in _OF_CONNECTIONS.items()
    }
    for of, tables in _healths(graphs).items():
        for name, family in families.items():
            counted = {table: float(getattr(health, name)) for table, health in tables.items()}
            family.add_metric(of, rising.total(f"{name} {' '.join(of)}", counted))
    yield from families.values()


def receivers(views: Iterable[ReceiverView], rising: Rising) -> Iterator[Metric]:
    """Yields what receivers have taken, by place; without samples where there are none."""
    connected = GaugeMetricFamily(
        "sqlengine_receiver_connected", "1 while messages can come", labels=["place"]
    )
    unread = GaugeMetricFamily(
        "sqlengine_receiver_unread", "Received, not read", labels=["place", "unit"]
    )
    families = {
        name: CounterMetricFamily(f"sqlengine_receiver_{name}", text, labels=["place"])
        for name, text in _OF_RECEIVERS.items()
    }
    for view in views:
        connected.add_metric([view.place], view.connected)
        unread.add_metric([view.place, "messages"], view.unread)
        unread.add_metric([view.place, "bytes"], view.unread_bytes)
        for name, family in families.items():
            label = f"received {view.place} {name}"
            family.add_metric([view.place], rising.onwards(label, getattr(view, name)))
    yield from (connected, unread, *families.values())
