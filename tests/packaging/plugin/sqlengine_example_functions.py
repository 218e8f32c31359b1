"""A scalar function: it runs in a process of its own, with these sources."""

from __future__ import annotations

from sqlengine import udf


@udf
def shout(text: str) -> str:
    return text.upper() + "!"
