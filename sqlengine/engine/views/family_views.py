"""The families in which jobs run, for the API."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from planner.graph.families import FamilyPlan
from planner.graph.family_members import FAMILY, operation_of
from planner.wording import named
from sqlengine.system.hidden import hidden_in_sql


class FamilyView(msgspec.Struct, frozen=True):
    """A family in which one job runs an operation with state: its name, and how many jobs run the
    same one in it."""

    family: str
    operation: str
    members: int


def families_of(job: str, plans: Iterable[FamilyPlan]) -> list[FamilyView]:
    """Returns the families in which a job runs, in the order of its operations."""
    found: list[FamilyView] = []
    for plan in plans:
        for node, _ in plan.plan.graph.stateful.get(job, ()):
            seat = plan.member_of.get(node)
            if seat is not None:
                members, name = seat.family.members, seat.family.id.removeprefix(FAMILY)
                (state,) = (n for n in members[seat.number].chain if n.id == node)
                operation = hidden_in_sql(named(operation_of(state)))
                found.append(FamilyView(name, operation, len(members)))
    return found
