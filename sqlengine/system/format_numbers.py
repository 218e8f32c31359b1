"""Checks format numbers: everything stored carries one, and nothing else of a record is read if it
is another than the one that this version knows."""

from __future__ import annotations

from typing import Final

import msgspec

from parser.errors import ServiceError

_HINT: Final = "start the version that wrote the data folder, or begin with an empty one"


class _Numbered(msgspec.Struct):
    """Records of the first versions carry no number."""

    format: int = 1


def check_number(
    number_read: object, known: int, what: str, number: str = "format", hint: str = _HINT
) -> None:
    """Raises ServiceError if `what` carries another number than the one that is known."""
    if number_read != known:
        message = f"{what} has {number} {number_read}, this version reads {known}"
        raise ServiceError(message, hint=hint)


def check_record(value: bytes, known: int, what: str) -> None:
    """Raises ServiceError if a JSON record carries another format number than the one known."""
    check_number(msgspec.json.decode(value, type=_Numbered).format, known, what)
