"""If-Match and If-None-Match for changes of jobs, whose entity tag is the number of their version.

The tag stands for the text: figures of a job change without it."""

from __future__ import annotations

from flask import request

from sqlengine.engine import Engine
from sqlengine.engine.expected_versions import Expected, check_expected


def expected() -> Expected | None:
    """Returns which versions of its job a request is for; None for any, or none."""
    if request.if_none_match.star_tag:
        return Expected(absent=True)
    if request.if_match.star_tag:
        return Expected()
    if "If-Match" not in request.headers:
        return None
    tags = map(str, request.if_match.as_set())  # a header that is none has a None in it
    return Expected(frozenset(int(tag) for tag in tags if tag.isascii() and tag.isdigit()))


def check_job(engine: Engine, name: str) -> None:
    """Raises VersionMismatch where a job is not as the request says that it should be."""
    wanted = expected()
    if wanted is not None:
        check_expected({name: wanted}, engine.log.jobs)


def tag_of(version: int) -> str:
    """Returns the entity tag of a job at this version."""
    return f'"{version}"'
