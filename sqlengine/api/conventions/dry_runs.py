"""Dry runs: a request that asks for one and would be made in earnest is refused."""

from __future__ import annotations

from typing import Final

from flask import request

from sqlengine.api.openapi.document import route_of
from sqlengine.api.openapi.paths import GROUPS
from sqlengine.api.queries import flag
from sqlengine.broker.topic_access import BadRequest

_READS: Final = ("GET", "HEAD", "OPTIONS")
_HAVE_ONE: Final = frozenset(
    (endpoint.method, endpoint.path)
    for endpoints in GROUPS.values()
    for endpoint in endpoints
    if any(query.name == "dry-run" for query in endpoint.query)
)


def check_dry_run() -> None:
    """Raises BadRequest where the present request wants a dry run of what has none."""
    if request.method in _READS or request.url_rule is None or not flag("dry-run"):
        return
    if (request.method, route_of(request.url_rule.rule)) not in _HAVE_ONE:
        raise BadRequest(
            f"there is no dry run of {request.method} {request.path}"[:200],
            detail="nothing was done",
            hint="/api/v1/openapi.json lists the requests that take ?dry-run",
        )
