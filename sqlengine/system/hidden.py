"""Texts in which no secret can be read: those that this process has handed to connectors, and marks
of those that are kept apart."""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import quote, quote_plus

from parser.errors import SqlError

MASK: Final = "******"
SEALED: Final = re.compile(r"\$\{sealed:([0-9a-f]{32})\}", re.ASCII)
# A shorter value would hide words by accident.
_SHORTEST: Final = 4
# In a user's text, a shorter value is hidden where it stands alone: it is no secret that
# 'first_logins' begins with one.
_ALONE: Final = 12
_MOST: Final = 10_000
# Values by when they were last handed out, newest last.
_handed_out: dict[str, None] = {}


def hand_out(value: str) -> None:
    """Notes a secret that a connector gets: it may be in what that raises and logs later on, in any
    of its `forms`."""
    for form in forms(value):
        if len(form) >= _SHORTEST:
            _handed_out.pop(form, None)
            _handed_out[form] = None
    while len(_handed_out) > _MOST:
        _handed_out.pop(next(iter(_handed_out)))


def forms(value: str) -> list[str]:
    """Returns how a secret may stand in what a library or a host says: as it is, without the line
    break behind it, and escaped as Python, JSON and URLs do.

    >>> forms("it's")
    ["it's", 'it%27s']
    """
    found = []
    for text in (value, value.strip()):
        found += [text, repr(text)[1:-1], repr(text.encode())[2:-1]]
        found += [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
        found += [quote(text), quote(text, safe=""), quote_plus(text)]
    return list(dict.fromkeys(filter(None, found)))


def without(text: str, values: list[str]) -> str:
    """Returns a text with a mask for each of these values: for very short ones where they are
    words of their own."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, MASK) if len(value) >= _SHORTEST else _without_word(text, value)
    return text


def _without_word(text: str, value: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)


def hidden(text: str) -> str:
    """Returns a text with a mask for each mark, and each secret that was handed out."""
    if "${sealed:" in text:
        text = SEALED.sub(MASK, text)
    return without(text, [v for v in list(_handed_out) if v in text])


def hidden_in_sql(text: str) -> str:
    """Returns a text of SQL, or a plan, like `hidden`, but with short values only where they are
    words of their own: others would be names that begin alike, and the text would not run."""
    if "${sealed:" in text:
        text = SEALED.sub(MASK, text)
    found = [v for v in list(_handed_out) if v in text]
    for value in (v for v in found if len(v) < _ALONE):
        text = _without_word(text, value)
    return without(text, [v for v in found if len(v) >= _ALONE])


def hide_handed_out(error: SqlError) -> SqlError:
    """Takes secrets that connectors were given out of what an error says; returns the error."""
    return hide(error, list(_handed_out))


def hide(error: SqlError, values: list[str]) -> SqlError:
    """Takes values out of what an error says; returns the error itself."""
    if any(v and v in f"{error.message}\0{error.detail}\0{error.hint}" for v in values):
        error.message = without(error.message, values)
        error.args = (error.message,)
        error.detail = None if error.detail is None else without(error.detail, values)
        error.hint = None if error.hint is None else without(error.hint, values)
    return error
