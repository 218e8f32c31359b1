"""Options of tables that rows are looked up in, as Flink names them, for all connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.settings import (
    CACHE_OPTION,
    FULL,
    MISS_ATTEMPTS,
    MISS_DELAY,
    NO_CACHE,
    PARTIAL,
    RELOAD_OPTION,
)
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, between, boolean, choice, duration

_PARTIAL: Final = "lookup.partial-cache."
MOST_ROWS: Final = _PARTIAL + "max-rows"
AFTER_WRITE: Final = _PARTIAL + "expire-after-write"
AFTER_ACCESS: Final = _PARTIAL + "expire-after-access"
KEEPS_MISSING: Final = _PARTIAL + "cache-missing-key"
RETRIES: Final = "lookup.max-retries"
ANSWER_TIMEOUT: Final = "lookup.timeout"
ON_ERROR: Final = "lookup.on-error"
DEAD_LETTER: Final = "dead-letter"
AT_ONCE: Final = "lookup.concurrency"
_MOST_AT_ONCE: Final = 1000

LOOKUP_OPTIONS: Final[Mapping[str, Option]] = {
    CACHE_OPTION: Option(
        choice(NO_CACHE, FULL),
        doc="'FULL' holds the table as a whole, in a file that is mapped into memory",
    ),
    RELOAD_OPTION: Option(
        duration, doc="a table that is held as a whole is read again so often, if it changed"
    ),
    "lookup.full-cache.reload-strategy": Option(choice("PERIODIC"), doc="read again after a time"),
}

# Of tables that can be asked for the rows of keys.
ASKED_OPTIONS: Final[Mapping[str, Option]] = {
    **LOOKUP_OPTIONS,
    CACHE_OPTION: Option(
        choice(NO_CACHE, PARTIAL, FULL),
        doc="'PARTIAL' asks the table for the rows of keys, and keeps answers for a while; 'NONE' "
        "asks each time; 'FULL' holds the table as a whole, in a file that is mapped into memory. "
        "Without this option the table is read once, as any other input",
    ),
    MOST_ROWS: Option(
        at_least(1), default="100000", doc="so many rows are kept; those not used go first"
    ),
    AFTER_WRITE: Option(duration, doc="an answer is kept for so long"),
    AFTER_ACCESS: Option(duration, doc="an answer is kept for so long after it was last used"),
    KEEPS_MISSING: Option(boolean, default="true", doc="that a key has no rows is kept, too"),
    RETRIES: Option(
        at_least(0), default="3", doc="how often the table is asked again after an error"
    ),
    ANSWER_TIMEOUT: Option(
        duration,
        doc="an answer may take so long, at most what 'sql serve --connector-timeout' says; the "
        "jobs that wait for it are started again then, and all others go on",
    ),
    MISS_ATTEMPTS: Option(
        at_least(0),
        default="0",
        doc="how often a key without rows is asked for again, as the hint LOOKUP says by "
        "'max-attempts'",
    ),
    MISS_DELAY: Option(
        duration,
        default="1 s",
        doc="after which time, each time: 'fixed-delay' of the hint. All rows of the job wait so "
        "long, so that attempts take 30 s together at most",
    ),
    "lookup.async": Option(
        boolean, doc="without effect: the keys of a batch are always asked for at once"
    ),
}


def concurrency(default: int, doc: str) -> Mapping[str, Option]:
    """Returns the option that says how much a table is asked for at a time."""
    return {AT_ONCE: Option(between(1, _MOST_AT_ONCE), default=str(default), doc=doc)}
