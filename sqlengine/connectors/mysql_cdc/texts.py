"""Values as the drivers of MariaDB give them, as the texts of logs of changes."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timedelta
from decimal import Decimal

_HEX = b"\\x"


def text_of(value: object, *, binary: bool) -> bytes | None:
    """Returns a value as text; `binary`: its column is one of bytes."""
    match value:
        case None:
            return None
        case bytes():
            return _HEX + value.hex().encode() if binary else value
        case str():
            return _HEX + value.encode().hex().encode() if binary else value.encode()
        case bool():
            return b"1" if value else b"0"
        case datetime():
            return value.isoformat(" ").encode()
        case timedelta():
            return _time(value).encode()
        case Decimal():
            return format(value, "f").encode()
        case set() | frozenset():
            return ",".join(sorted(map(str, value))).encode()
        case dict() | list():
            return json.dumps(_plain(value), ensure_ascii=False).encode()
        case _:
            return str(value).encode()


def _time(value: timedelta) -> str:
    """A TIME, which may be less than nothing and more than a day."""
    sign = "-" if value < timedelta() else ""
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    fraction = f".{micros:06}" if micros else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _plain(value: object) -> object:
    """Makes texts of the bytes in a value of JSON."""
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return [_plain(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value
