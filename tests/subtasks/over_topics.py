"""A statement of a golden script over topics: its files become topics, its results changes in a
topic."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner.catalog import Table
from planner.logical import LogicalPlan, Scan, Sink
from planner.rewrite import transform
from sqlengine.broker.base import Broker
from sqlengine.formats.registry import framing_of


@dataclass
class Topics:
    """Makes the topics of a statement in a broker; lines are dealt to their shards in turns. Tables
    that a topic cannot stand for, since a row says where it was or replaces what a folder had, stay
    what they are."""

    broker: Broker
    shards: int
    made: dict[object, Table] = field(default_factory=dict)

    def over(self, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        changed = [transform(sink, self._read) for sink in sinks]
        return tuple(self._written(n, s) for n, s in enumerate(changed) if isinstance(s, Sink))

    def _read(self, node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, Scan) or not _of_lines(node.table):
            return node
        table = node.table
        known = (table.name, *sorted(table.options.items()))
        if known not in self.made:
            self.made[known] = self._dealt(table, f"in-{len(self.made)}")
        return replace(node, table=self.made[known])

    def _dealt(self, table: Table, topic: str) -> Table:
        self.broker.create_topic(topic, self.shards)
        for i, line in enumerate(_lines(table)):
            self.broker.append(topic, i % self.shards, [line], timestamp_ms=0)
        form = table.options["format"]
        options = {
            k: v for k, v in table.options.items() if k == "format" or k.startswith(f"{form}.")
        }
        options |= {"connector": "topic", "topic": topic, "scan.startup.mode": "earliest-offset"}
        return replace(table, options={**options, "scan.bounded.mode": "latest-offset"})

    def _written(self, number: int, sink: Sink) -> Sink:
        if sink.overwrite:
            return sink
        schema = sink.input.schema
        options = {"connector": "topic", "topic": f"out-{number}", "format": "debezium-json"}
        return replace(sink, table=Table(("", "", f"out-{number}"), schema, schema, options))


def _of_lines(table: Table) -> bool:
    plain = not table.metadata and not table.partition_keys
    return table.connector == "filesystem" and "path" in table.options and plain


def _lines(table: Table) -> list[bytes]:
    path = Path(table.options["path"].removeprefix("file://"))
    files = (
        [path]
        if path.is_file()
        else sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
    )
    found = (
        framing_of(table).split(f.read_bytes(), complete=True).records.to_pylist() for f in files
    )
    return [line for lines in found for line in lines]


def left_in(records: list[bytes]) -> Counter[str]:
    """What changes leave in the end."""
    rows: Counter[str] = Counter()
    for change in map(json.loads, records):
        gone = change["op"] == "d"
        rows[json.dumps(change["before" if gone else "after"])] += -1 if gone else 1
    return Counter({row: n for row, n in rows.items() if n})
