"""The meaning of answers to the requests of a webhook."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from parser.errors import ExecutionError
from sqlengine.connectors.http.client import Answer, site

RETRIED: Final = "401, 403, 408, 425, 429, 5xx"
_GONE: Final = 410
_CODE: Final = re.compile(r"([1-5])([0-9]{2}|xx)")


class Meaning(Enum):
    """The meaning of an answer for the rows of its request."""

    TAKEN = "taken"
    LATER = "to be sent again"
    REFUSED = "refused for good"


def codes(text: str) -> frozenset[int]:
    """Parses a list of statuses such as `408, 429, 5xx`. ValueError where it is none."""
    found: set[int] = set()
    for part in filter(None, (p.strip().lower() for p in text.split(","))):
        match = _CODE.fullmatch(part)
        if match is None:
            raise ValueError("expected statuses such as '408, 429, 5xx'")
        first = int(match[1]) * 100
        found |= set(range(first, first + 100)) if match[2] == "xx" else {first + int(match[2])}
    return frozenset(found)


def meaning(answer: Answer, retried: frozenset[int], table: str, url: str) -> Meaning:
    """Returns what an answer means. ExecutionError for one that no later row would change: a
    redirection, or a webhook that is gone."""
    status = answer.status
    if 200 <= status < 300:
        return Meaning.TAKEN
    if status in retried:
        return Meaning.LATER
    if 300 <= status < 400:
        where = answer.headers.get("location", "")[:200]
        raise ExecutionError(
            f"the webhook of table '{table}' redirects, which is not followed",
            detail=f"{site(url)} answers {status}: {where}",
            hint="write the address that it names as 'url', if it is right",
        )
    if status == _GONE:
        raise ExecutionError(
            f"the webhook of table '{table}' is gone",
            detail=f"{site(url)} answers {answer.shown}",
            hint="give the table another 'url', or remove the job",
        )
    return Meaning.REFUSED
