"""Answers of hosts."""

from __future__ import annotations

import json

from tests.servers.webhook import Told

JSON = {"Content-Type": "application/json"}


def told(value: object, status: int = 200, **headers: str) -> Told:
    """An answer of JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Told(status, {**JSON, **named}, json.dumps(value).encode())
