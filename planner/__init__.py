"""Statements to plans: `plan` binds, analyses and optimises one statement, `bind` gives what a
definition adds to the catalog, `explain` shows a plan."""

from __future__ import annotations

from planner.analyzer import analyze
from planner.binder import Bound, bind, bind_create_as
from planner.explain import explain
from planner.optimizer import optimize
from planner.plan import PlannedStatement, plan

__all__ = [
    "Bound",
    "PlannedStatement",
    "analyze",
    "bind",
    "bind_create_as",
    "explain",
    "optimize",
    "plan",
]
