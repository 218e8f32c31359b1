"""Access to the server: for principals, for the holders of the token, or else for this machine
alone."""

from __future__ import annotations

from typing import Final

from flask import Response

from parser.errors import ServiceError
from sqlengine.access.identity import Access, AccessFile, Caller, OneToken, own_users
from sqlengine.access.policy import Forbidden, Unauthorised
from sqlengine.access.principals import Principal
from sqlengine.api.permissions import check_head, check_route
from sqlengine.api.principal import note_principal, note_rights, present_request
from sqlengine.api.problems import problem
from sqlengine.api.serving.admission import ADMITTED, PEER, Admit, Head, Peer, Refusal, head_of
from sqlengine.api.serving.origins import foreign
from sqlengine.config import Config

# Whoever watches the server needs no token to see whether it lives.
_OPEN: Final = frozenset({"/healthz", "/readyz"})
_CHALLENGE: Final = (("WWW-Authenticate", "Bearer"),)


def access_of(config: Config) -> Access:
    """Returns who may do what on a server. ServiceError for an access file with a fault."""
    return OneToken(config.token) if config.access is None else AccessFile(config.access)


def admission(config: Config, access: Access | None = None) -> Admit:
    """Returns what decides on the requests of a server, by their heads.

    With an access file, only its principals may, and nobody whose roles do not go that far. Without
    one, on the local socket the server's own user may do all, and nobody else anything; on the
    port, with a token, only its holders may; without, only this machine may, and no page in a
    browser on it: a request that names another host, or comes from another origin, was made by a
    web site. Who shows a certificate may come from another machine."""
    given = access or access_of(config)
    alone = config.token is None and not given.told_apart

    def admit(head: Head) -> Refusal | None:
        if head.peer.uid is not None and not given.told_apart:
            return None if head.peer.uid in own_users() else _other_user(head.peer.uid)
        if alone:
            return foreign(head, anywhere=head.peer.certificate is not None)
        if head.path in _OPEN:
            return None
        try:
            check_head(
                given.identify(caller_of(head.headers.get("authorization", ""), head.peer)),
                head.method,
                head.path,
            )
        except Unauthorised as error:
            return Refusal(401, error, _CHALLENGE)
        except Forbidden as error:
            return Refusal(403, error)
        return None

    return admit


def caller_of(authorization: str, peer: object) -> Caller:
    """Returns who asks, by the header and the other end of the connection."""
    if not isinstance(peer, Peer):
        return Caller(authorization)
    names = () if peer.certificate is None else (peer.certificate,)
    return Caller(authorization, peer.uid, names)


def refusal(admit: Admit) -> Response | None:
    """Returns the refusal of Flask's request; None if it may be made, or the server has admitted
    it before."""
    environ = present_request().environ
    if environ.get(ADMITTED) is True:
        return None
    refused = admit(head_of(environ))
    return None if refused is None else as_response(refused)


def authorise(access: Access) -> None:
    """Notes the principal of Flask's request, and how to find out again who that is. Raises
    Forbidden for a route, or the object that its path names, that is not the principal's."""
    asked = present_request()
    environ, method, names = asked.environ, asked.method, asked.view_args or {}
    rule = None if asked.url_rule is None or method == "OPTIONS" else asked.url_rule.rule
    apart = access.told_apart and asked.path not in _OPEN

    def rights() -> Principal | None:
        principal = None
        if apart:
            given = caller_of(environ.get("HTTP_AUTHORIZATION", ""), environ.get(PEER))
            principal = access.identify(given)
            note_principal(asked, principal)
        if rule is not None:
            check_route(principal, method, rule, names)
        return principal

    rights()
    note_rights(asked, rights)


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
