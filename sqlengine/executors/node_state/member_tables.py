"""The rows of one member in the tables of its family: from and to those that it has alone, *single*
ones here, which do not have its number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.graph.family_members import Member, member_columns, number_columns
from sqlengine.operators.ports import WATERMARKS, raise_to
from sqlengine.operators.templates import literal_column
from sqlengine.state.columns import IntArray
from sqlengine.state.references import REFERENCE, REFERRED, Rows, attach, detached
from sqlengine.state.table import KeyedTable

# The tables of one node by the operator's names.
Tables = Mapping[str, KeyedTable]


def single_tables(tables: Tables, number: int | None = None) -> dict[str, KeyedTable]:
    """Returns copies of one member's tables in their single form; without a number empty ones."""
    made = {name: _single(table) for name, table in tables.items()}
    if number is not None:
        slots = _slots_of(tables, [number])
        dumps = {n: pa.Table.from_batches([tables[n].rows_at(slots[n])]) for n in tables}
        attach(made, without_numbers(detached(dumps)))
    return made


def rows_of(tables: Tables) -> dict[str, pa.Table]:
    """Returns the rows of single tables in order, without what belongs to these tables alone."""
    return detached({name: table.dump() for name, table in tables.items()})


def absorb_member(tables: Tables, member: Member, rows: Rows) -> None:
    """Adds a member's rows to the tables of its family."""
    attach(tables, {n: _numbered(tables[n], member, rows[n]) for n in rows if _has_keys(tables[n])})
    for name in (n for n in rows if not _has_keys(tables[n])):
        if name == WATERMARKS:
            raise_to(tables[name], rows[name])
        elif not len(tables[name]):  # else all members have what the first one had
            tables[name].absorb(rows[name])


def remove_members(tables: Tables, numbers: Collection[int]) -> None:
    """Removes the rows of members from the tables of a family."""
    for name, slots in _slots_of(tables, numbers).items() if numbers else ():
        if _has_keys(tables[name]) and len(slots):
            tables[name].remove(slots)
            tables[name].generation += 1  # what operators know of these rows is void


def without_numbers(rows: Rows) -> dict[str, pa.Table]:
    """Returns rows of families without the columns of their member's number."""
    return {n: part.drop_columns(member_columns(part.column_names)) for n, part in rows.items()}


class MemberShares:
    """The rows of members in tables of families, and their shares of the bytes: counted once for
    each version of a table, since limits ask for all members in turn."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[KeyedTable, tuple[int, Mapping[int, int], int]] = (
            WeakKeyDictionary()
        )
        self._layouts: WeakKeyDictionary[KeyedTable, str] = WeakKeyDictionary()

    def of(self, tables: Tables, number: int) -> dict[str, tuple[int, int]]:
        """Returns the rows of one member in each table, and their share of the table's bytes."""
        return {name: self._of(tables, name, number) for name in tables}

    def layouts(self, tables: Tables) -> dict[str, str]:
        """Returns the layouts that a member's tables have alone."""
        for table in tables.values():
            if table not in self._layouts:
                self._layouts[table] = _single(table).layout
        return {name: self._layouts[table] for name, table in tables.items()}

    def _of(self, tables: Tables, name: str, number: int) -> tuple[int, int]:
        table = tables[name]
        if not _has_keys(table):
            return len(table), table.bytes
        known = self._known.get(table)
        if known is None or known[0] != table.version:
            own = _numbers(tables, name, table.live())
            numbers, counts = np.unique(own, return_counts=True)
            rows = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
            known = self._known[table] = table.version, rows, table.bytes
        _, rows_of_members, size = known
        rows_here = rows_of_members.get(number, 0)
        return rows_here, size * rows_here // max(len(table), 1)


def _has_keys(table: KeyedTable) -> bool:
    """False for the table of a node's watermarks, which are those of all members."""
    return not table.everywhere


def _slots_of(tables: Tables, numbers: Collection[int]) -> dict[str, IntArray]:
    """Returns the slots of these members by table; all of what members have together."""
    live = {name: table.live() for name, table in tables.items()}
    wanted = np.array(sorted(numbers), np.int64)
    return {
        name: slots[np.isin(_numbers(tables, name, slots), wanted)]
        if _has_keys(tables[name])
        else slots
        for name, slots in live.items()
    }


def _numbers(tables: Tables, name: str, slots: IntArray) -> IntArray:
    """Returns the numbers of the members to which rows belong; none for those of all."""
    table = tables[name]
    for column in number_columns(table.keys.names):
        numbers: IntArray = table.columns[column].view(np.int64)[slots]
        return numbers
    if REFERENCE not in table.keys.names:
        return np.empty(0, np.int64)
    live = tables[REFERRED].live()
    known, _ = tables[REFERRED].identities(live)
    order = np.argsort(known)
    referred = table.columns[REFERENCE][slots].astype(np.int64)
    return _numbers(tables, REFERRED, live[order[np.searchsorted(known[order], referred)]])


def _single(table: KeyedTable) -> KeyedTable:
    exchange = None if table.everywhere else tuple(_others(table.exchange))
    keys, values = (Schema(tuple(s.select(_others(s.names)))) for s in (table.keys, table.values))
    return KeyedTable(table.name, keys, values, exchange)


def _others(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    numbers = member_columns(names)
    return tuple(name for name in names if name not in numbers)


def _numbered(table: KeyedTable, member: Member, rows: pa.Table) -> pa.Table:
    """Returns a member's rows with what is the same in all of them."""
    for name in member_columns((*table.keys.names, *table.values.names)):
        constant = member.constant(name)
        values = literal_column([constant.value] * len(rows), constant.type.arrow)
        rows = rows.append_column(name, values)
    return rows
