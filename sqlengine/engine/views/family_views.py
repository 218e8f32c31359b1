"""The families in which jobs run, for the API."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from planner.graph.families import FamilyPlan
from planner.graph.family_members import FAMILY, operation_of
from planner.graph.takeover import name_of
from sqlengine.system.hidden import hidden


class FamilyView(msgspec.Struct, frozen=True):
    """A family in which one job runs an operation with state: its name, and how many jobs run the
    same one in it."""

    family: str
    operation: str
    members: int


def families_by_job(plans: Iterable[FamilyPlan]) -> dict[str, list[FamilyView]]:
    """Returns the families of each job that is in any, in the order of its operations."""
    found: dict[str, list[FamilyView]] = {}
    for plan in plans:
        for node, family in plan.families.items():
            nth, name = family.states.index(node), family.id.removeprefix(FAMILY)
            for member in family.members.values():
                (state,) = (n for n in member.chain if n.id == member.states[nth])
                operation = hidden(name_of(operation_of(state)))
                view = FamilyView(name, operation, len(family.members))
                for job in member.jobs:
                    found.setdefault(job, []).append(view)
    return found
