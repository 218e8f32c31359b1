"""Headers of requests, as options of a table have them."""

from __future__ import annotations

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.connectors.http.authorization import HEADER


def check_header(table: Table, name: str, text: str) -> None:
    """Raises PlanError for a name that no header may have, or a text with a line break, which would
    begin another one. The text is not told: it may be a secret."""
    if (
        not name
        or not all(c.isalnum() or c in "!#$%&'*+-.^_`|~" for c in name)
        or not name.isascii()
    ):
        raise OptionError(
            f"'{HEADER}{name}' of table '{table.display}' names no header",
            hint="a name has letters, digits and -",
            subject=HEADER + name,
        )
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise OptionError(
            f"'{HEADER}{name}' of table '{table.display}' has a line break",
            hint="leave it out",
            subject=HEADER + name,
        )


def on_the_wire(value: str) -> str:
    """Returns a header's value so that its UTF-8 goes out: clients write one byte a character."""
    return value.encode().decode("latin-1")
