"""State that moves between families and operators of single jobs when a plan changes.

Whatever keeps or moves the state of a job (savepoints, migrations, a replaced job) knows tables of
single operations. A family has one of each kind for all members, with the member's number as a key
column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from planner.graph.families import FamilyPlan, members_by_number
from planner.graph.family_members import FAMILY, Member, number_columns, number_of
from planner.graph.family_nodes import Family, nth_state
from planner.graph.physical import PhysicalPlan
from sqlengine.executors.node_state.member_tables import (
    Tables,
    remove_members,
    rows_of,
    without_numbers,
)
from sqlengine.executors.node_state.node_context import creation_version, local_name
from sqlengine.state.references import REFERENCE, REFERRED, Rows, detached, referring
from sqlengine.state.table import KeyedTable


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


def arrivals(
    run: FamilyPlan,
    before: FamilyPlan,
    restored: Restored,
    find: Callable[[str], Tables | None],
    inherited: Mapping[str, str],
) -> Arrivals:
    """Returns what goes where when `run` takes the place of the plan `before`.

    `find` returns the single tables that a node has now, None where it runs not. `inherited`: new
    nodes by those whose state they take over."""
    tables, versions = restored.for_families(run)
    found = Arrivals(
        tables=tables, versions=versions, split=not restored.tables.keys() <= tables.keys()
    )
    by_node = _by_node(tables, restored.created)
    moved = [(n, s) for n, s in run.member_of.items() if before.member_of.get(n) is not s]
    for node, seat in moved:
        known = before.member_of.get(node)
        if known is not None and known.state == seat.state:
            continue
        has = find(node) or find(inherited.get(node, ""))
        rows = rows_of(has) if has is not None else by_node.get(node)
        if rows is not None:
            found.members.setdefault(seat.state, []).append((seat.number, detached(rows)))
    for node in {**before.member_of, **inherited} if before.member_of else ():
        source = node if node in before.member_of else inherited[node]
        if source in before.member_of and node in run.plan.nodes:
            found.single[node] = dict(find(source) or {})
    return found


def leave(family: Family, after: Family, tables: Tables) -> Collection[int]:
    """Removes the rows of members that a family has no more; returns their numbers."""
    gone = family.members.keys() - after.members.keys()
    remove_members(tables, gone)
    return gone


@dataclass(frozen=True)
class Restored:
    """The tables of a checkpoint by full name, for the jobs of a plan; `created`: the versions of
    their nodes."""

    plan: PhysicalPlan
    tables: Mapping[str, pa.Table]
    created: Mapping[str, int]

    def for_families(self, run: FamilyPlan) -> tuple[dict[str, pa.Table], dict[str, int]]:
        """Returns the tables, those of families in single form unless `run` has the same ones; and
        the versions of the latter."""
        tables = {n: rows for n, rows in self.tables.items() if not n.startswith(FAMILY)}
        versions: dict[str, int] = {}
        single = {creation_version(name)[0] for name in tables}
        for node, (version, rows) in self._of_families().items():
            if self._fits(run, node, rows, single):
                versions[node] = version
                tables |= {f"{node}@{version}/{name}": part for name, part in rows.items()}
            else:
                versions[node] = version + 1  # names of tables that are made anew are not stored
                tables |= self._split(node, rows)
        return tables, versions

    def _of_families(self) -> dict[str, tuple[int, dict[str, pa.Table]]]:
        """Returns the tables of each node of a family, with its version."""
        found: dict[str, tuple[int, dict[str, pa.Table]]] = {}
        for name, rows in self.tables.items():
            if name.startswith(FAMILY):
                node, version = creation_version(name)
                found.setdefault(node, (version, {}))[1][local_name(name)] = rows
        return found

    def _fits(self, run: FamilyPlan, node: str, rows: Rows, single: Collection[str]) -> bool:
        """True if a family runs as it was, and no member comes with tables of its own."""
        family = run.families.get(node)
        if family is None or not _numbers_in(rows) <= family.members.keys():
            return False
        return not any(m.states[nth_state(node)] in single for m in family.members.values())

    def _split(self, node: str, rows: Rows) -> Iterator[tuple[str, pa.Table]]:
        """Yields the parts of a family's tables that belong to nodes alone, by full name."""
        numbers = _numbers_in(rows)
        if len(_keyed(rows)) < len(rows):  # members without rows have parts of the others
            shape = node.removeprefix(FAMILY).partition(":")[0]
            numbers |= {n for n, member in self._members.items() if member.shape == shape}
        for number in sorted(numbers):
            owner = self._owner(number, nth_state(node))
            for name, part in without_numbers(detached(_of_member(rows, number))).items():
                yield f"{owner}@{self.created[owner]}/{name}", part

    def _owner(self, number: int, nth: int) -> str:
        """Returns the node that has the nth state of a member alone."""
        return self._members[number].states[nth] if nth else self._first_states[number]

    @cached_property
    def _members(self) -> Mapping[int, Member]:
        return members_by_number(self.plan)

    @cached_property
    def _first_states(self) -> Mapping[int, str]:
        return {number_of(node): node for node in self.created}


def _of_member(rows: Rows, number: int) -> dict[str, pa.Table]:
    """Returns the rows of one member, and what all have in common."""
    own = {
        name: part.filter(pc.equal(part[number_columns(part.column_names)[0]], number))
        for name, part in _keyed(rows).items()
    }
    for name, part in rows.items():
        if name not in own:
            refers = REFERENCE in part.column_names
            own[name] = referring(part, own[REFERRED]) if refers else part
    return own


def _keyed(rows: Rows) -> dict[str, pa.Table]:
    """Returns the tables whose rows have the number of their member."""
    return {name: part for name, part in rows.items() if number_columns(part.column_names)}


def _numbers_in(rows: Rows) -> set[int]:
    """Returns the numbers of members that have rows in any table of a family."""
    columns = (part[number_columns(part.column_names)[0]] for part in _keyed(rows).values())
    return set().union(*(pc.unique(column).to_pylist() for column in columns))


def _by_node(
    tables: Mapping[str, pa.Table], created: Mapping[str, int]
) -> dict[str, dict[str, pa.Table]]:
    found: dict[str, dict[str, pa.Table]] = {}
    for name, rows in tables.items():
        node, version = creation_version(name)
        if created.get(node) == version:
            found.setdefault(node, {})[local_name(name)] = rows
    return found
