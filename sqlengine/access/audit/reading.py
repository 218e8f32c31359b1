"""Reads the lines of an audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FIELDS = {"n", "time", "by", "peer", "what", "outcome"}


@dataclass(frozen=True)
class Wanted:
    """The lines that are wanted: of an object (a job, topic or file), from a time to another as
    lines have it, behind a number. None for any."""

    subject: str | None = None
    since: str | None = None
    until: str | None = None
    after: int = 0

    def takes(self, event: dict[str, object]) -> bool:
        """True for a line that is wanted."""
        time, number = str(event["time"]), event["n"]
        return (
            (self.subject is None or event.get("object") == self.subject)
            and (self.since is None or time >= self.since)
            and (self.until is None or time <= self.until)
            and isinstance(number, int)
            and number > self.after
        )


def events_in(files: Iterable[Path], wanted: Wanted | None = None) -> Iterator[dict[str, object]]:
    """Yields the lines of files that are wanted, in order; what is none is left out: `verify` tells
    it."""
    wanted = wanted or Wanted()
    for path in files:
        for line in path.read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.keys() >= _FIELDS and wanted.takes(event):
                yield event
