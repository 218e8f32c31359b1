"""Path lookup in many JSON texts: only the values on the path are built, the rest is checked and
skipped.

msgspec accepts a part of what Flink accepts, and reads it alike; the few texts that it refuses are
`DOUBTFUL`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from functools import lru_cache

import msgspec

from udf.json.path import Names, Path
from udf.json.text import BadPath, NotFound


class _Doubt(Enum):
    DOUBTFUL = 0


# The text must be read in another way.
DOUBTFUL = _Doubt.DOUBTFUL
# The text is JSON, and a definite part of the path is missing.
NOTHING = msgspec.UNSET
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder(float_hook=Decimal)


def read_fast(text: str) -> object:
    """The value of a JSON text; DOUBTFUL where msgspec refuses it."""
    try:
        return _ANY.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return DOUBTFUL


_COLON = re.compile(r'"[ \t\r\n]*:')


def has_unique_keys(text: str, value: object) -> bool:
    """True if no object of a text has a key twice; False where that is not sure.

    `value` is the decoded text. There is a colon for every key that is written, and there may be
    more in strings."""
    count, stack = 0, [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            count += len(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return count == text.count(":") or count == len(_COLON.findall(text))


def values_at(documents: Sequence[str], path: Path) -> list[object]:
    """Returns the result of `path.find` for each text, NOTHING where there is none."""
    names, decode = _way(path)
    if decode is None:
        return [DOUBTFUL] * len(documents)
    decoded = _decoded(documents, decode)
    for _ in names:
        try:
            decoded = [v.m for v in decoded]  # type: ignore[attr-defined]
        except AttributeError:
            decoded = [_next(v) for v in decoded]
    rest = Path(path.steps[len(names) :], path.lax)
    return decoded if not rest.steps else [_found(rest, v) for v in decoded]


def _next(value: object) -> object:
    """The member of a level: a Struct, or null where the level is."""
    if isinstance(value, msgspec.Struct):
        return value.m  # type: ignore[attr-defined]
    return NOTHING if value is None else value


def _decoded(documents: Sequence[str], decode: Callable[[str], object]) -> list[object]:
    try:
        return [decode(d) for d in documents]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [_guarded(d, decode) for d in documents]


def _guarded(document: str, decode: Callable[[str], object]) -> object:
    try:
        return decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return DOUBTFUL


def _found(path: Path, value: object) -> object:
    if value is DOUBTFUL or value is NOTHING:
        return value
    try:
        return path.find(value)  # type: ignore[arg-type]
    except NotFound:
        return NOTHING
    except BadPath:
        return DOUBTFUL


@lru_cache(maxsize=256)
def _way(path: Path) -> tuple[tuple[str, ...], Callable[[str], object] | None]:
    """The names at the beginning of a path, and a decoder to a Struct with one member for the first
    of them, which is one for the second; None where a name is none that msgspec takes."""
    names: list[str] = []
    for step in path.steps:
        if not isinstance(step, Names) or len(step.names) > 1:
            break
        names.append(step.names[0])
    if not names:
        return (), _ANY.decode
    try:
        return tuple(names), msgspec.json.Decoder(_struct(names), float_hook=Decimal).decode
    except ValueError:
        return (), None


def _struct(names: Sequence[str]) -> type[msgspec.Struct]:
    inner: object = object if len(names) == 1 else _struct(names[1:]) | None
    return msgspec.defstruct(
        "Level", [("m", inner, msgspec.UNSET)], rename={"m": names[0]}, gc=False
    )
