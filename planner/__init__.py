"""Statements to plans: `bind` gives a typed plan, `optimize` a better one with equal rows,
`explain` shows one."""

from __future__ import annotations

from planner.binder import Bound, bind, bind_create_as
from planner.explain import explain
from planner.optimizer import optimize

__all__ = ["Bound", "bind", "bind_create_as", "explain", "optimize"]
