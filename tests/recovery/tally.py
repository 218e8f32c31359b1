"""What was killed where."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """Who died, at which point of the work, and when: before, within or after it. No point: nothing
    was changed yet."""

    who: str
    point: str = ""
    moment: str = ""


class Tally:
    """Kills by place: those that were named, and what the others had changed last. With a file it
    is kept there, with each kill. `cpu_s`, `wall_s`: how many seconds they took of all processors,
    and by the clock."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.named: Counter[Place] = Counter()
        self.drawn: Counter[Place] = Counter()
        self.cpu_s = self.wall_s = 0.0
        if file is not None and file.exists():
            self._load(file)

    @property
    def kills(self) -> int:
        return self.named.total() + self.drawn.total()

    def count(self, place: Place, *, named: bool) -> None:
        (self.named if named else self.drawn)[place] += 1
        self.save()

    def add(self, other: Tally) -> None:
        self.named += other.named
        self.drawn += other.drawn
        self.cpu_s += other.cpu_s
        self.wall_s += other.wall_s
        self.save()

    def save(self) -> None:
        """Whole, or as it was before."""
        if self._file is None:
            return
        kinds = [
            [[*place, count] for place, count in kind.items()] for kind in (self.named, self.drawn)
        ]
        new = self._file.with_name(f"{self._file.name}.new")
        new.write_text(json.dumps([*kinds, self.cpu_s, self.wall_s]))
        os.replace(new, self._file)

    def _load(self, file: Path) -> None:
        named, drawn, self.cpu_s, self.wall_s = json.loads(file.read_text())
        self.named, self.drawn = (
            Counter({Place(*place): n for *place, n in kind}) for kind in (named, drawn)
        )
