"""The context with which an operator opens: its counters and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa

from parser.errors import ServiceError
from parser.types import Schema
from sqlengine.state.references import REFERENCE, REFERRED, attach_referring
from sqlengine.state.table import SEQUENCE, KeyedTable


def _never() -> None: ...


def _to_nobody(rows: Mapping[str, int]) -> None: ...


class NodeContext:
    """Counters and tables of one node; the tables live as long as the node does.

    A table's full name is `node@version/name`, with the graph version that created the node: a node
    that is removed and added again finds nothing of its former tables. `tables` are all tables of
    the graph by full name, `restored` rows to fill new ones from, `inherited` tables of another
    node that this one takes over, by the operator's names. `begun`: tables that began empty."""

    def __init__(
        self,
        node: str,
        created_at_version: int,
        tables: dict[str, KeyedTable],
        restored: Mapping[str, pa.Table],
        inherited: Mapping[str, KeyedTable] | None = None,
        check_step: Callable[[], None] = _never,
        charge: Callable[[Mapping[str, int]], None] = _to_nobody,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.check_step = check_step
        self.charge = charge
        self.stateful = False
        self.begun: dict[str, KeyedTable] = {}
        self._owner = f"{node}@{created_at_version}"
        self._tables = tables
        self._names: list[str] = []
        self._restored = restored
        self._inherited = dict(inherited or {})

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        """The operator's table of that name: inherited, filled from restored rows, or new."""
        self.stateful = True
        full = f"{self._owner}/{name}"
        # An operator that replaces another one opens over the same tables: it gets those that
        # exist.
        if full not in self._tables:
            table = self._inherited.pop(name, None) or KeyedTable(full, keys, values, exchange)
            table.name = full
            self._tables[full] = table
            self._names.append(full)
            if full in self._restored:
                self._fill(table, self._restored[full])
            if not len(table):
                self.begun[name] = table
        return self._tables[full]

    def _fill(self, table: KeyedTable, rows: pa.Table) -> None:
        """Fills a table from a dump, or from rows that another table had."""
        if SEQUENCE in rows.column_names:
            table.load(rows)
        elif REFERENCE in rows.column_names:
            referred = self._tables[f"{self._owner}/{REFERRED}"]
            attach_referring(table, rows, referred, referred.in_order(referred.live()))
        else:
            table.absorb(rows)

    def check_complete(self, *, may_lack_all: bool) -> None:
        """Raises ServiceError if the operator keeps other tables than were restored for it: rows
        would be lost in silence. A member of a family may have had rows in none."""
        stored = {name for name in self._restored if name.startswith(f"{self._owner}/")}
        if may_lack_all and not stored:
            return
        for name in sorted(stored.symmetric_difference(self._names)):
            raise ServiceError(
                f"state of table '{name}' is"
                f" {'stored, but kept no more' if name in stored else 'not stored'}",
                detail="the checkpoint was written by a version whose operators keep other state",
                hint="start the version that wrote the data folder, or begin with an empty one",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of the node's tables."""
        return tuple(self._names)

    def hand_over(self) -> dict[str, KeyedTable]:
        """Removes the tables of a node that goes, for the node that takes them over."""
        return {local_name(name): self._tables.pop(name) for name in self._names}

    def copy(self) -> dict[str, KeyedTable]:
        """Copies the tables of a node that stays, for another node that takes them over."""
        return {local_name(name): self._tables[name].copy() for name in self._names}

    def drop(self) -> None:
        """Removes the tables of a node that goes."""
        for name in self._names:
            self._tables.pop(name, None)


def local_name(name: str) -> str:
    """The operator's name of a table, from its full name."""
    return name.split("/", 1)[1]


def creation_version(name: str) -> tuple[str, int]:
    """The node of a table and the graph version that created it, from the table's full name."""
    node, version = name.split("/", 1)[0].split("@", 1)
    return node, int(version)
