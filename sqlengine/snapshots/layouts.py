"""The layouts of the tables that operators keep, obtained from the operators themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from parser.types import Schema
from planner.graph.physical import PhysicalNode
from sqlengine.executors.build import OperatorFactory
from sqlengine.state.table import KeyedTable


class _RecordingContext:
    """A context that records the tables which an operator opens."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.tables: dict[str, KeyedTable] = {}

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        if name not in self.tables:
            self.tables[name] = KeyedTable(name, keys, values, exchange)
        return self.tables[name]

    def check_step(self) -> None: ...

    def charge(self, rows: Mapping[str, int]) -> None: ...


def layouts_of(node: PhysicalNode, factory: OperatorFactory) -> dict[str, str]:
    """Returns the layout of each table of a node's operator, by the table's name.

    Builds an operator for this purpose, which never runs."""
    context = _RecordingContext()
    operator = factory.build(node, None)
    operator.open(context)
    operator.close()
    return {name: table.layout for name, table in context.tables.items()}


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    """Returns why an operator with layouts `new` cannot read tables of layouts `old`; None if it
    can."""
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            return f"it keeps no table '{name}' any more"
        if name not in old:
            return f"it keeps a table '{name}' besides"
        if old[name] != new[name]:
            return f"its state has other columns: ({old[name]}) is now ({new[name]})"
    return None
