"""Finds out what a plan touches: the topics that it reads and writes, connectors, functions and
secrets, its own and those of tables and views that others have defined.

It is judged by the plan, in which views are written out, options of hints are merged, and names are
resolved: what a text looks like does not matter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.catalog import CatalogObject, Function, Table, View
from planner.logical import LogicalPlan, Scan, Sink
from planner.rewrite import nodes
from sqlengine.access.policy import Action, allows, decide, forbidden, require
from sqlengine.access.principals import Principal
from sqlengine.system.secrets import secret_names

_USERS = "@"  # the name by which a plan calls a function of users is PLACE@CONTENT


@dataclass
class Touched:
    """The names of everything that plans touch. `knows`: topics of tables that are named, perhaps
    without being read or written: whoever may do neither has no business with them. `groups`:
    those whose offsets a job moves, on which `access.groups` decides."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    knows: set[str] = field(default_factory=set)
    connectors: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def add_plan(self, plan: LogicalPlan) -> None:
        """Adds what a plan reads, calls, and if it is an INSERT writes."""
        for node in nodes(plan):
            self.functions |= {
                name.partition(_USERS)[0] for name in node.functions if _USERS in name
            }
            if isinstance(node, Scan):
                self._add_table(node.table, self.reads)
                if (group := node.table.options.get("properties.group.id")) is not None:
                    self.groups.add(group)
            elif isinstance(node, Sink) and node.table is not None:
                self._add_table(node.table, self.writes)

    def add_object(self, item: CatalogObject) -> None:
        """Adds what a definition gives access to."""
        if isinstance(item, Table):
            self._add_table(item, self.knows)
        elif isinstance(item, View):
            self.add_plan(item.plan)
        elif isinstance(item, Function):
            self.functions.add(item.user.place)

    def _add_table(self, table: Table, topics: set[str]) -> None:
        connector = table.options.get("connector")
        if connector is None:
            return
        self.connectors.add(connector)
        self.secrets |= secret_names(table.options)
        if "topic" in table.options:
            topics.add(table.options["topic"])

    def check(self, principal: Principal) -> None:
        """Raises Forbidden for the first of them that a principal may not use."""
        asked = (
            (Action.READ_TOPIC, self.reads),
            (Action.WRITE_TOPIC, self.writes),
            (Action.SEE_TOPIC, self.knows),
            (Action.USE_CONNECTOR, self.connectors),
            (Action.USE_FUNCTION, self.functions),
            (Action.USE_SECRET, self.secrets),
        )
        for action, names in asked:
            for name in sorted(names):
                require(principal, action, name)


def check_plans(
    principal: Principal, sinks: Iterable[LogicalPlan], objects: Iterable[CatalogObject] = ()
) -> Touched:
    """Returns what these plans and definitions touch; nothing for an administrator. Raises
    Forbidden if a principal may not run or define them."""
    touched = Touched()
    if principal.is_admin:
        return touched
    for sink in sinks:
        touched.add_plan(sink)
    for item in objects:
        touched.add_object(item)
    touched.check(principal)
    return touched


def check_new_topics(principal: Principal, topics: Iterable[str]) -> None:
    """Raises Forbidden for the first of these topics, which are missing and would be made, that a
    principal may not make."""
    for name in topics:
        decision = decide(principal, Action.WRITE_TOPIC, name)
        if not decision.allowed:
            error = forbidden(principal, Action.WRITE_TOPIC, name, decision.missing)
            error.detail = f"the topic does not exist, and would be made; {error.detail}"
            error.hint = f"who may write it makes it: sql topic create {name}"
            raise error


def may_see_savepoint(principal: Principal, job: str) -> None:
    """Raises Forbidden if a principal may not begin with the state of this job: it holds rows of
    what the job reads."""
    if not allows(principal, Action.SEE_JOB, job):
        raise forbidden(principal, Action.SEE_JOB, job, "the job of the savepoint is another's")
