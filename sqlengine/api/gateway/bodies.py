"""Bodies of requests to the gateway."""

from __future__ import annotations

import json

from flask import request

from parser.limits import present
from sqlengine.broker.topic_access import BadRequest


class Body:
    """The members of a JSON object; a request without a body has none. Each is read with the type
    that it must have: BadRequest for any other."""

    def __init__(self) -> None:
        data = request.get_data(cache=False)
        check_json(data)
        try:
            self._members = json.loads(data) if data.strip() else {}
        except (ValueError, RecursionError) as error:
            raise BadRequest("the body is not JSON", detail=str(error)) from None
        if not isinstance(self._members, dict):
            raise BadRequest("the body is no JSON object", hint='send {"statement": "SELECT …"}')

    def statement(self) -> str:
        """Returns the statement."""
        found = self._members.get("statement")
        if not isinstance(found, str):
            raise BadRequest("the body has no statement", hint='send {"statement": "SELECT …"}')
        return found

    def number(self, name: str) -> int:
        """Returns a whole number; 0 where there is none."""
        found = self._members.get(name) or 0
        if not isinstance(found, int) or not 0 <= found < 1 << 63:  # a long of Java
            detail = str(found)[:60]
            raise BadRequest(f"'{name}' is no whole number from 0 to 2^63 - 1", detail=detail)
        return found

    def texts(self, name: str) -> dict[str, str]:
        """Returns an object of strings, empty where there is none."""
        found = self._members.get(name) or {}
        if not isinstance(found, dict):
            raise BadRequest(f"'{name}' is no JSON object", hint='send {"key": "value"}')
        return {key: str(value) for key, value in found.items() if value is not None}


def check_json(data: bytes) -> None:
    """Raises BadRequest for more JSON than a statement can be. It is read in one call, which no
    other thread gets into."""
    most = 2 * present().text_size
    if len(data) > most:
        raise BadRequest(
            f"the body has {len(data):,} bytes, at most {most:,} are allowed (twice 'text-size')",
            hint="send statements one after the other, rows as Arrow",
        )
