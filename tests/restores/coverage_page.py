"""What the tests of this folder have covered, as a page for people."""

from __future__ import annotations

from typing import Final

from tests.pages import Page
from tests.support import ROOT

_TEXT: Final = """# What is proved of restores, instances and shards

Every streaming statement of the golden scripts (`tests/sql`) is run again: killed and taken up from its checkpoint and its \
epoch log (a read takes 1 row, about 5 times with a checkpoint each; then 3 rows, behind every epoch, and epochs are \
repeated, some of them after a part of the sinks had their rows), drained where a source without an end is read to (with a \
death before each of the sinks has its rows), in several instances whose buckets move from batch to batch, and over tables whose \
lines are dealt to three shards in two ways. After a restore the rows of every epoch are the same, in order; instances and \
shards leave the same rows in the end. `pytest tests/restores -m "" -n 2` does it, and with `--update` it writes this page.

"""
PAGE: Final = Page(
    "restores",
    ROOT / "docs" / "restores.md",
    _TEXT,
    {
        "statements": "statements",
        "with state": "with state",
        "restored": "restored",
        "kills": "kills",
        "replays": "epochs repeated",
        "drained": "drained",
        "in instances": "in instances",
        "batches": "batches",
        "interleaved": "over shards",
        "orders of shards": "orders",
    },
)
