"""Options of all tables whose changes are followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration

CHANGE_OPTIONS: Final[Mapping[str, Option]] = {
    "connect.timeout": Option(duration, default="30 s", doc="how long connecting may take"),
    **{name: o for name, o in RECEIVE_OPTIONS.items() if not name.startswith("scan.")},
    "scan.startup.mode": Option(
        choice("initial", "latest-offset"),
        default="initial",
        doc="a snapshot and then changes, or changes alone",
    ),
}
