"""Query parameters of a request."""

from __future__ import annotations

from flask import request

from sqlengine.broker.topic_access import BadRequest


def whole_number(name: str, default: int) -> int:
    """Returns a parameter as an integer. Raises BadRequest for anything else."""
    text = request.args.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise BadRequest(
            f"'{name}' must be a whole number", detail=f"it is '{text[:60]}'"
        ) from None
