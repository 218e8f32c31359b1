"""The options of tables that say where their records are."""

from __future__ import annotations

from typing import Final

from planner.catalog import Table

# Prefixes of options that do not say it.
_NO_PLACE: Final = (
    "format", "key.", "value.", "sink.", "scan.startup.", "scan.watermark.", "lookup.", "receive.",
    "password", "tls.", "will.", "connect-timeout", "keep-alive", "session-expiry",
)  # fmt: skip
_PARTS: Final = ("", "key.", "value.")


def formats(table: Table) -> list[str]:
    """Returns the formats that a table names."""
    return [v for k, v in table.options.items() if k == "format" or k.endswith(".format")]


def record_options(table: Table) -> dict[str, str]:
    """Returns the options of a table that say where its records are: without those of formats and
    writers, and of where a new job begins. Tables that have them alike count the same records."""
    decoding = (*_NO_PLACE, *(f"{part}{name}." for name in formats(table) for part in _PARTS))
    return {k: v for k, v in table.options.items() if not k.startswith(decoding)}
