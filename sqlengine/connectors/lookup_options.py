"""Options of tables that rows are looked up in, as Flink names them, for all connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.settings import CACHE_OPTION, RELOAD_OPTION
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration

LOOKUP_OPTIONS: Final[Mapping[str, Option]] = {
    CACHE_OPTION: Option(
        choice("NONE", "FULL"),
        doc="'FULL' holds the table as a whole, in a file that is mapped into memory",
    ),
    RELOAD_OPTION: Option(
        duration, doc="a table that is held as a whole is read again so often, if it changed"
    ),
    "lookup.full-cache.reload-strategy": Option(choice("PERIODIC"), doc="read again after a time"),
}
