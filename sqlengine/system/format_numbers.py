"""Whatever is kept carries the number of its format. Under another number nothing more is read: all
else may be otherwise."""

from __future__ import annotations

from typing import Final

import msgspec

from parser.errors import ServiceError

_HINT: Final = "start the version that wrote the data folder, or begin with an empty one"


class _Numbered(msgspec.Struct):
    """Records of the first versions carry no number."""

    format: int = 1


def check_number(
    found: object, known: int, what: str, number: str = "format", hint: str = _HINT
) -> None:
    """ServiceError where `what` carries another number than the one that is known."""
    if found != known:
        raise ServiceError(f"{what} has {number} {found}, this version reads {known}", hint=hint)


def check_record(value: bytes, known: int, what: str) -> None:
    """The same for a record in JSON."""
    check_number(msgspec.json.decode(value, type=_Numbered).format, known, what)
