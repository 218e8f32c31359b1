"""The principal of the request that Flask handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from flask import Request, request
from werkzeug.local import LocalProxy

from sqlengine.access.policy import Action, allows, require
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.jobs.job import Origin

# In the WSGI environment, once it is known.
_PRINCIPAL: Final = "sqlengine.principal"
_RIGHTS: Final = "sqlengine.rights"
_STAND_IN: Final = cast("LocalProxy[Request]", request)


def present_request() -> Request:
    """Returns the request itself. Flask's `request` finds it anew for each attribute, which costs
    as much as to decide who may ask."""
    return _STAND_IN._get_current_object()


def note_principal(asked: Request, principal: Principal) -> None:
    """Notes who asks."""
    asked.environ[_PRINCIPAL] = principal


def note_rights(asked: Request, rights: Callable[[], Principal | None]) -> None:
    """Notes what finds out again who asks, and whether he still may: for long answers."""
    asked.environ[_RIGHTS] = rights


def present_rights() -> Callable[[], Principal]:
    """Returns what finds out who has made the request, at any later time. Raises Unauthorised, or
    Forbidden, once that is nobody who might make it."""
    environ = present_request().environ
    rights: Callable[[], Principal | None] = environ.get(_RIGHTS, lambda: None)
    return lambda: rights() or TRUSTED


def present_principal() -> Principal:
    """Returns who asks."""
    found: Principal = present_request().environ.get(_PRINCIPAL, TRUSTED)
    return found


def request_origin() -> Origin:
    """Returns the origin of a request: the CLI names itself in X-Origin."""
    return Origin.CLI if present_request().headers.get("X-Origin") == "cli" else Origin.REST


def may(action: Action, name: str | None = None) -> bool:
    """True if who asks may do that."""
    return allows(present_principal(), action, name)


def need(action: Action, name: str | None = None) -> None:
    """Raises Forbidden unless who asks may do that."""
    require(present_principal(), action, name)
