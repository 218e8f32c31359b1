"""Query parameters of a request."""

from __future__ import annotations

import math

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


def seconds(name: str, default: float = 0.0) -> float:
    """Returns a parameter as a number of seconds. Raises BadRequest for anything else."""
    text = request.args.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadRequest(f"'{name}' must be a number of seconds", detail=f"it is '{text[:60]}'")
    return number


def flag(name: str) -> bool:
    """Returns a parameter that is true or false, by default false."""
    return request.args.get(name, "false").lower() in ("true", "1", "yes")
