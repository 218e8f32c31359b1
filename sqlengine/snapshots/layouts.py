"""What tables an operator keeps, asked of the operator itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from parser.types import Schema
from planner.graph.physical import PhysicalNode
from sqlengine.executors.build import OperatorFactory
from sqlengine.state.table import KeyedTable


class _Probe:
    """A context that notes the tables it is asked for."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.tables: dict[str, KeyedTable] = {}

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        if name not in self.tables:
            self.tables[name] = KeyedTable(name, keys, values, exchange)
        return self.tables[name]


def layouts_of(node: PhysicalNode, factory: OperatorFactory) -> dict[str, str]:
    """The layout of each table that the node's operator keeps, by the table's name: of an operator
    built for the question, which never runs."""
    probe = _Probe()
    operator = factory.build(node, None)
    operator.open(probe)
    operator.close()
    return {name: table.layout for name, table in probe.tables.items()}


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    """What keeps an operator of layouts `new` from reading tables of `old`, in words; None where
    nothing does."""
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            return f"it keeps no table '{name}' any more"
        if name not in old:
            return f"it keeps a table '{name}' besides"
        if old[name] != new[name]:
            return f"its state has other columns: ({old[name]}) is now ({new[name]})"
    return None
