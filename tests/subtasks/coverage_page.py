"""What of the golden scripts has been run in subtasks, as a page for people."""

from __future__ import annotations

from typing import Final

from tests.pages import Page
from tests.support import ROOT

_TEXT: Final = """# Golden statements in subtasks

Every streaming statement of the golden scripts (`tests/sql`) is run again in a graph of three [subtasks](instances.md), its \
files as topics, of one shard and of three, three rows a read. Subtasks are killed, also within an epoch, closed and opened \
elsewhere, and write checkpoints, all by chance. At the end the rows must equal those of one graph that is not disturbed, and \
a statement that fails must fail with the same message. Where a statement reads the clock, the clock stands still.
`pytest tests/subtasks -m ""` does it, and with `--update` it writes this page.

"""
PAGE: Final = Page(
    "parts",
    ROOT / "docs" / "subtasks.md",
    _TEXT,
    {
        "statements": "statements",
        "distributed": "distributed",
        "over shards": "over three shards, too",
        "kill": "kills",
        "in step": "kills within an epoch",
        "move": "moves",
        "checkpoint": "checkpoints",
    },
)
