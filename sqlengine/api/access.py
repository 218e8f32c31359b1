"""Access to the server: for the holders of the token, or else for this machine alone."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import Response, request

from parser.errors import ServiceError
from sqlengine.api.problems import problem

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = frozenset({"/healthz", "/readyz"})


def refusal(token: str | None) -> Response | None:
    """Returns the refusal of a request that may not be made; None if it may.

    With a token, only its holders may. Without, only this machine may, and no page in a browser on
    it: a request that names another host, or comes from another origin, was made by a web site.
    """
    if token is not None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path in _OPEN or hmac.compare_digest(given.encode(), token.encode()):
            return None
        return problem(_unauthorised(given), 401)
    host = urlsplit(f"//{request.host}").hostname
    origin = request.headers.get("Origin")
    if host not in _LOCAL or (origin is not None and urlsplit(origin).hostname not in _LOCAL):
        return problem(
            ServiceError("requests come from this machine only unless a token is set"), 403
        )
    return None


def _unauthorised(given: str) -> ServiceError:
    return ServiceError(
        "not authorised",
        detail="the token is not the server's" if given else "the request has no token",
        hint="set SQLENGINE_TOKEN, or --token-file, to the token that 'sql serve' was started with;"
        " over HTTP send 'Authorization: Bearer TOKEN'",
    )
