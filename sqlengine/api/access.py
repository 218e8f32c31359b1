"""Access to the server: for the holders of the token, or else for this machine alone."""

from __future__ import annotations

import hmac
import os
from typing import Final

from flask import Response, request

from parser.errors import ServiceError
from sqlengine.api.problems import problem
from sqlengine.api.serving.admission import ADMITTED, Admit, Head, Refusal, head_of
from sqlengine.api.serving.origins import foreign
from sqlengine.config import Config

# Whoever watches the server needs no token to see whether it lives.
_OPEN: Final = frozenset({"/healthz", "/readyz"})


def admission(config: Config) -> Admit:
    """Returns what decides on the requests of a server.

    On the local socket the server's own user may do all, and nobody else anything. On the port,
    with a token, only its holders may. Without, only this machine may, and no page in a browser on
    it: a request that names another host, or comes from another origin, was made by a web site."""
    token = config.token

    def admit(head: Head) -> Refusal | None:
        if head.peer.uid is not None:
            return None if head.peer.uid in (os.geteuid(), 0) else _other_user(head.peer.uid)
        if token is None:
            return foreign(head)
        given = head.headers.get("authorization", "").removeprefix("Bearer ")
        if head.path in _OPEN or hmac.compare_digest(given.encode(), token.encode()):
            return None
        return Refusal(401, _unauthorised(given), (("WWW-Authenticate", "Bearer"),))

    return admit


def refusal(admit: Admit) -> Response | None:
    """Returns the refusal of Flask's request; None if it may be made, or the server has admitted
    it before."""
    if request.environ.get(ADMITTED) is True:
        return None
    refused = admit(head_of(request.environ))
    return None if refused is None else as_response(refused)


def as_response(refused: Refusal) -> Response:
    """Returns a refusal as Flask's response."""
    response = problem(refused.error, refused.status)
    response.headers.extend(refused.headers)
    return response


def _other_user(uid: int) -> Refusal:
    error = ServiceError(
        f"the user with number {uid} may not use the server",
        detail="its local socket is for the user who runs it",
        hint="use its port, with the token",
    )
    return Refusal(403, error)


def _unauthorised(given: str) -> ServiceError:
    return ServiceError(
        "not authorised",
        detail="the token is not the server's" if given else "the request has no token",
        hint="set SQLENGINE_TOKEN, or --token-file, to the token that 'sql serve' was started with;"
        " over HTTP send 'Authorization: Bearer TOKEN'",
    )
