"""What of the golden scripts has been run in parts, as a page for people."""

from __future__ import annotations

from typing import Final

from tests.pages import Page
from tests.support import ROOT

_TEXT: Final = """# What is proved of parts

Every streaming statement of the golden scripts (`tests/sql`) is run again in a graph of three [parts](instances.md), its \
files as topics, of one shard and of three, three rows a read. Parts are killed, also amidst an epoch, closed and opened \
elsewhere, and write checkpoints, all by chance. In the end the same rows are left as of one graph that nobody disturbs, and \
a statement that fails fails with the same words. Where a statement asks for the time, the clock stands still.
`pytest tests/subtasks -m ""` does it, and with `--update` it writes this page.

"""
PAGE: Final = Page(
    "parts",
    ROOT / "docs" / "parts.md",
    _TEXT,
    {
        "statements": "statements",
        "in parts": "in parts",
        "over shards": "over three shards, too",
        "kill": "kills",
        "in step": "kills amidst an epoch",
        "move": "moves",
        "checkpoint": "checkpoints",
    },
)
