"""Texts in which no secret can be read: those that this process has handed to connectors, and marks
of those that are kept apart."""

from __future__ import annotations

import json
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final, TypeVar
from urllib.parse import quote, quote_plus

from parser.errors import SqlError

T = TypeVar("T")
MASK: Final = "******"
SEALED: Final = re.compile(r"\$\{sealed:([0-9a-f]{32})\}", re.ASCII)
# A shorter value would hide words by accident.
_SHORTEST: Final = 4
# In a user's text, a shorter value is hidden where it stands alone: it is no secret that
# 'first_logins' begins with one.
_ALONE: Final = 12
# Values that nothing open holds any more: what is said late may have them.
_MOST: Final = 10_000
# In a text as long as this, a few values are looked for, and not all.
_LONG: Final = 10_000
_lock = threading.Lock()
# Values that nothing holds by when they were last handed out, newest last; those that are held,
# with the number of holders; and those of holders that are gone. Whoever defines many secrets
# drops no other's that is in use.
_handed_out: dict[str, None] = {}
_held: dict[str, int] = {}
_let_go: deque[frozenset[str]] = deque()
_opening: ContextVar[set[str] | None] = ContextVar("_opening", default=None)


def hand_out(value: str) -> None:
    """Notes a secret that a connector gets: it may be in what that raises and logs later on, in any
    of its `forms`."""
    found = {form for form in forms(value) if len(form) >= _SHORTEST}
    opening = _opening.get()
    if opening is not None:
        opening |= found
    with _lock:
        _release()
        _note(found)


def held(opening: Callable[[], T]) -> T:
    """Returns what an opening returns. All secrets that are handed out meanwhile are hidden for as
    long as somebody has that."""
    found: set[str] = set()
    token = _opening.set(found)
    try:
        holder = opening()
    finally:
        _opening.reset(token)
    if found:
        _hold(holder, frozenset(found))
    return holder


def _hold(holder: object, values: frozenset[str]) -> None:
    with _lock:
        try:
            # Takes no lock: it is called wherever memory is taken back.
            weakref.finalize(holder, _let_go.append, values).atexit = False
        except TypeError:  # a text, or an object without a place for it
            return
        for value in values:
            _held[value] = _held.get(value, 0) + 1


def _release() -> None:
    """Takes up which holders are gone. Under the lock."""
    while _let_go:
        values = _let_go.popleft()
        _note(values)
        for value in values:
            _held[value] -= 1
            if not _held[value]:
                del _held[value]


def _note(values: Iterable[str]) -> None:
    for value in values:
        _handed_out.pop(value, None)
        _handed_out[value] = None
    while len(_handed_out) > _MOST:
        del _handed_out[next(iter(_handed_out))]


def _in(text: str) -> list[str]:
    """Returns the secrets that a text has."""
    values = [*_held, *_handed_out]
    if len(text) > _LONG and len(values) > _LONG // 100:
        beginnings = {text[i : i + _SHORTEST] for i in range(len(text))}
        values = [v for v in values if v[:_SHORTEST] in beginnings]
    return list(dict.fromkeys(v for v in values if v in text))


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
    return without(text, _in(text))


def hidden_in_sql(text: str) -> str:
    """Returns a text of SQL, or a plan, like `hidden`, but with short values only where they are
    words of their own: others would be names that begin alike, and the text would not run."""
    if "${sealed:" in text:
        text = SEALED.sub(MASK, text)
    found = _in(text)
    for value in (v for v in found if len(v) < _ALONE):
        text = _without_word(text, value)
    return without(text, [v for v in found if len(v) >= _ALONE])


def hide_handed_out(error: SqlError) -> SqlError:
    """Takes secrets that connectors were given out of what an error says; returns the error."""
    return hide(error, _in(_said(error)))


def hide(error: SqlError, values: list[str]) -> SqlError:
    """Takes values out of what an error says; returns the error itself."""
    said = _said(error)
    if any(v and v in said for v in values):
        error.message = without(error.message, values)
        error.args = (error.message,)
        error.detail = None if error.detail is None else without(error.detail, values)
        error.hint = None if error.hint is None else without(error.hint, values)
    return error


def _said(error: SqlError) -> str:
    return f"{error.message}\0{error.detail}\0{error.hint}"
