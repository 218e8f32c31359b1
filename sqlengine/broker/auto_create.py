"""Creates the topics that tables name, where they are missing: whether, and with which options."""

from __future__ import annotations

from dataclasses import dataclass

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))
WEEK_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """The defaults for topics that tables name and that are missing.

    They are created for tables that are read (`sources`), that are written (`sinks`), with so many
    shards; `retention_ms`: None keeps records for ever, `elsewhere` as long as the cluster does
    that has the topics. A table's own options come first.
    """

    sources: bool = False
    sinks: bool = True
    shards: int = 1
    retention_ms: int | None = None
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that a table needs and that is missing. `similar` is the topic that was perhaps
    meant by the table that reads it; `written`: a table that is written needs it; `elsewhere`: it
    is in a cluster."""

    name: str
    shards: int
    retention_ms: int | None
    compacted: bool = False
    similar: str | None = None
    written: bool = False
    elsewhere: bool = False

    def __str__(self) -> str:
        kept = "compacted" if self.compacted else f"kept {duration_in_words(self.retention_ms)}"
        if self.elsewhere and self.retention_ms is None:
            kept = "kept as RocketMQ is set"
        shards = "1 shard" if self.shards == 1 else f"{self.shards} shards"
        return f"topic '{self.name}' with {shards}, {kept}"


def duration_in_words(ms: int | None) -> str:
    """Returns '7 days' for a duration, 'for ever' for None."""
    if ms is None:
        return "for ever"
    unit, factor = next(((u, f) for u, f in _UNITS if ms % f == 0), ("millisecond", 1))
    number = ms // factor
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"
