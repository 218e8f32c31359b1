"""The share of a core that `sql backtest` takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlengine.cli.waiting import Waiting


@dataclass
class Pace:
    """Shows how far a backtest is, and rests so that it takes no more than a `share` of a core."""

    share: float | None
    waiting: Waiting

    def __post_init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def proceed(self, rows: int, now: int | None) -> None:
        """Rests as long as it has to. Called before each epoch."""
        at = "" if now is None else time.strftime(", %Y-%m-%d %H:%M", time.gmtime(now / 1000))
        self.waiting.what = f"{rows:,} rows{at}"
        if self.share is not None:
            due = (time.process_time() - self._cpu) / self.share
            time.sleep(max(0.0, due - (time.monotonic() - self._wall)))
