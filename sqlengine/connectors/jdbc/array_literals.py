"""Arrays as PostgreSQL writes them: {"a",NULL,{…}}."""

from __future__ import annotations

import re
from typing import Final

# What stands before the elements where they are not counted from 1.
_BOUNDS: Final = re.compile(r"(?:\[-?\d+:-?\d+\])+=")
_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)|([{}])', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def elements_of(text: str) -> list[object]:
    """Returns the elements of an array: texts, None for NULL, or lists of such. ValueError where it
    is none.

    >>> elements_of('{1,NULL,"a \\\\"b\\\\""}')
    ['1', None, 'a "b"']
    """
    bounds = _BOUNDS.match(text)
    open_: list[list[object]] = [[]]
    for found in _TOKEN.finditer(text, bounds.end() if bounds else 0):
        quoted, plain, bracket = found.groups()
        if bracket == "{":
            inner: list[object] = []
            open_[-1].append(inner)
            open_.append(inner)
        elif bracket == "}":
            open_.pop()
        elif quoted is not None:
            open_[-1].append(_ESCAPED.sub(r"\1", quoted))
        else:
            open_[-1].append(None if plain == "NULL" else plain)
    (whole,) = open_[0]
    if not isinstance(whole, list):
        raise ValueError(f"'{text}'")
    return whole
