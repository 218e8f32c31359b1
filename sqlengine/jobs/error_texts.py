"""Errors with the line of the text at fault, for terminals and logs: passwords in it are masked.

Loads nothing heavy for texts that have none: the command line needs it, too."""

from __future__ import annotations

import re
from typing import Final

from parser.errors import SqlError, render

# A text without any of these has no passwords.
_SECRETS: Final = re.compile(
    r"pass|pwd|pin|secret|token|credential|key|auth|jaas|connection|://", re.IGNORECASE
)


def rendered(error: SqlError, text: str | None) -> str:
    """Returns an error as several lines, with its line of a text and a caret under it."""
    if text is None or error.position is None or not _SECRETS.search(text):
        return render(error, text)
    from sqlengine.jobs.sealing import shown

    place = error.position
    position, masked = shown(text, place)
    try:
        error.position = position
        return render(error, masked).replace(str(position), str(place), 1)
    finally:
        error.position = place
