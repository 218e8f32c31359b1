"""The principal of the request that Flask handles."""

from __future__ import annotations

from flask import g

from sqlengine.access.policy import Action, allows, require
from sqlengine.access.principals import TRUSTED, Principal


def present_principal() -> Principal:
    """Returns who asks."""
    found: Principal = g.get("principal", TRUSTED)
    return found


def may(action: Action, name: str | None = None) -> bool:
    """True if who asks may do that."""
    return allows(present_principal(), action, name)


def need(action: Action, name: str | None = None) -> None:
    """Raises Forbidden unless who asks may do that."""
    require(present_principal(), action, name)
