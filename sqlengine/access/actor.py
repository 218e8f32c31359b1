"""The one who has asked for what is done now, for records of changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Actor:
    """Somebody who asks. `by`: the principal, '' where it is not known; `peer`: the address, or the
    user of this machine; `what`: the request."""

    by: str = ""
    peer: str = ""
    what: str = ""


# What the server does by itself.
SERVER: Final = Actor(peer="server")
_present: Final = ContextVar("actor", default=SERVER)


def present_actor() -> Actor:
    """Returns who has asked for what this thread does."""
    return _present.get()


def note_actor(actor: Actor) -> None:
    """Notes who asks for what this thread does from now on."""
    _present.set(actor)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Runs the body for an actor."""
    token = _present.set(actor)
    try:
        yield
    finally:
        _present.reset(token)
