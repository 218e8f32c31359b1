"""The state of families: tables of many members, from and to those that a member has alone.

Whatever keeps or moves the state of a job (savepoints, migrations, a replaced job) knows tables of
single operations, *single* ones here. A family has one of each kind for all members, with the
member's number as a key column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import Schema
from planner.graph.families import Family, FamilyPlan
from planner.graph.family_members import FAMILY, MEMBER, number_of
from sqlengine.executors.node_state.node_context import creation_version, local_name
from sqlengine.state.columns import IntArray
from sqlengine.state.table import BUCKET, SEQUENCE, KeyedTable

# Rows without arrival numbers by the operator's names of tables.
Rows = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Arrivals:
    """State that goes to other places in a change of a plan.

    `members`: rows of members by the node of their family, with their numbers. `single`: tables of
    nodes that were members. `tables`: restored tables by full name, for all other nodes, and
    `versions` those of families. `split`: restored members of families run alone, whose tables are
    not among these where they have no rows."""

    members: dict[str, list[tuple[int, Rows]]] = field(default_factory=dict)
    single: dict[str, dict[str, KeyedTable]] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    split: bool = False


def slots_of(table: KeyedTable, number: int) -> IntArray:
    """Returns the slots of one member in a family's table."""
    slots = table.live()
    own: IntArray = slots[_numbers(table, slots) == number]
    return own


def _numbers(table: KeyedTable, slots: IntArray) -> IntArray:
    numbers: IntArray = table.columns[MEMBER].view(np.int64)[slots]
    return numbers


def single_table(table: KeyedTable, number: int | None = None) -> KeyedTable:
    """Returns a copy of one member's table in its single form; without a number an empty one."""
    keys = Schema(tuple(c for c in table.keys if c.name != MEMBER))
    exchange = tuple(n for n in table.exchange if n != MEMBER)
    single = KeyedTable(table.name, keys, table.values, None if table.everywhere else exchange)
    if number is not None:
        single.absorb(_without(table.rows_at(slots_of(table, number)), MEMBER))
    return single


def absorb_member(table: KeyedTable, number: int, rows: pa.Table) -> None:
    """Adds a member's rows to its family's table."""
    numbers = pa.array(np.full(len(rows), number, np.int64))
    table.absorb(rows.append_column(MEMBER, numbers))


def rows_of(table: KeyedTable) -> pa.Table:
    """Returns the rows of a single table in order, without what belongs to that table alone."""
    return _without(table.dump(), SEQUENCE, BUCKET)


def arrivals(
    run: FamilyPlan,
    before: FamilyPlan,
    restored: Mapping[str, pa.Table],
    created: Mapping[str, int],
    find: Callable[[str], Mapping[str, KeyedTable] | None],
    inherited: Mapping[str, str],
) -> Arrivals:
    """Returns what goes where when `run` takes the place of the plan `before`.

    `restored`: tables by full name, and `created` the versions of their nodes. `find` returns the
    single tables that a node has now, None where it runs not. `inherited`: new nodes by those whose
    state they take over."""
    tables, versions = _of_store(run, restored, created)
    found = Arrivals(tables=tables, versions=versions, split=not restored.keys() <= tables.keys())
    by_node = _by_node(tables, created)
    for node, (family, number) in run.member_of.items():
        known = before.member_of.get(node)
        if known is not None and known[0].state == family.state:
            continue
        has = find(node) or find(inherited.get(node, ""))
        rows = {n: rows_of(t) for n, t in has.items()} if has is not None else by_node.get(node)
        if rows is not None:
            plain = {name: _without(part, SEQUENCE, BUCKET) for name, part in rows.items()}
            found.members.setdefault(family.state, []).append((number, plain))
    for node in run.plan.nodes:
        source = node if node in before.member_of else inherited.get(node, "")
        if source in before.member_of:
            found.single[node] = dict(find(source) or {})
    return found


class MemberShares:
    """The rows of members in tables of families, and their shares of the bytes: counted once for
    each version of a table, since limits ask for all members in turn."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Mapping[int, int], int]] = {}
        self._layouts: dict[str, str] = {}

    def of(self, table: KeyedTable, number: int) -> tuple[int, int]:
        """Returns the rows of one member, and their share of the table's bytes."""
        known = self._known.get(table.name)
        if known is None or known[0] != table.version:
            numbers, counts = np.unique(_numbers(table, table.live()), return_counts=True)
            rows = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
            known = self._known[table.name] = table.version, rows, table.bytes
        _, rows_of_members, size = known
        rows_here = rows_of_members.get(number, 0)
        return rows_here, size * rows_here // max(len(table), 1)

    def layout(self, table: KeyedTable) -> str:
        """Returns the layout that a member's table has alone."""
        if table.name not in self._layouts:
            self._layouts[table.name] = single_table(table).layout
        return self._layouts[table.name]


def leave(family: Family, after: Family, tables: Iterable[KeyedTable]) -> set[int]:
    """Removes the rows of members that a family has no more; returns their numbers."""
    gone = family.members.keys() - after.members.keys()
    for table in tables:
        slots = table.live() if gone else np.empty(0, np.int64)
        if len(slots):
            of_gone = np.isin(_numbers(table, slots), np.array(sorted(gone), np.int64))
            table.remove(slots[of_gone])
    return gone


def _of_store(
    run: FamilyPlan, restored: Mapping[str, pa.Table], created: Mapping[str, int]
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """Returns restored tables, those of families in single form unless `run` has the same ones; and
    the versions of the latter."""
    tables = {n: rows for n, rows in restored.items() if not n.startswith(FAMILY)}
    versions: dict[str, int] = {}
    single = set(map(_node, tables))
    for name, rows in restored.items():
        if not name.startswith(FAMILY):
            continue
        node, version = creation_version(name)
        family = run.families.get(node)
        numbers = set(rows[MEMBER].to_pylist())
        alone = family is None or any(m.state in single for m in family.members.values())
        if family is None or alone or not numbers <= family.members.keys():
            tables |= _split(name, rows, created, _numbers_in(restored, node))
            versions[node] = version + 1  # the names of tables that are made anew are not stored
        else:
            tables[name], versions[node] = rows, version
    return tables, versions


def _numbers_in(restored: Mapping[str, pa.Table], node: str) -> list[int]:
    """Returns the numbers of members that have rows in any table of a family."""
    tables = [rows[MEMBER] for name, rows in restored.items() if _node(name) == node]
    return sorted(set().union(*(pc.unique(column).to_pylist() for column in tables)))


def _split(
    name: str, rows: pa.Table, created: Mapping[str, int], numbers: Iterable[int]
) -> Iterator[tuple[str, pa.Table]]:
    """Yields the parts of a family's table that belong to nodes alone, by full name."""
    owners = {number_of(node): f"{node}@{version}" for node, version in created.items()}
    for number in numbers:
        part = rows.filter(pc.equal(rows[MEMBER], number))
        yield f"{owners[number]}/{local_name(name)}", _without(part, MEMBER, SEQUENCE, BUCKET)


def _by_node(
    tables: Mapping[str, pa.Table], created: Mapping[str, int]
) -> dict[str, dict[str, pa.Table]]:
    found: dict[str, dict[str, pa.Table]] = {}
    for name, rows in tables.items():
        node, version = creation_version(name)
        if created.get(node) == version:
            found.setdefault(node, {})[local_name(name)] = rows
    return found


def _node(name: str) -> str:
    return creation_version(name)[0]


def _without(rows: pa.Table | pa.RecordBatch, *names: str) -> pa.Table:
    """Returns rows without some columns, where they have them."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return table.drop_columns([n for n in names if n in table.column_names])
