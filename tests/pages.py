"""Pages of docs/ that tests write: what they have covered of the golden scripts, and what not and
why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.sql.golden import Script, scripts

STREAMING: Final = tuple(s for s in scripts() if s.mode == "streaming")
# The name of a script, what was done, and what was left out and why.
Told: TypeAlias = tuple[str, dict[str, int], list[tuple[str, str, int]]]


@dataclass
class Report:
    """What was done, and what went wrong. `left_out`: statements by what was not done with them,
    and why. `refused`: what the session says of statements that fail. `about`: the statement that
    runs."""

    done: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    about: str = ""

    def expect(self, what: str, difference: str) -> None:
        if difference:
            self.failures.append(f"{self.about}\n  {what}: {difference}")

    @contextmanager
    def failing(self, what: str) -> Iterator[None]:
        """An error of ours in one statement keeps nobody from the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  it is told, with all others, when the script is over
            self.expect(what, f"{type(error).__name__}: {error}")

    def add(self, other: Report) -> None:
        self.done += other.done
        self.left_out += other.left_out
        self.failures += other.failures

    def told(self, script: Script) -> Told:
        """As it goes from process to process."""
        return (
            script.name,
            dict(self.done),
            [(*what, count) for what, count in self.left_out.items()],
        )


@dataclass(frozen=True)
class Page:
    """`key`: under this name tests tell what they have covered. `columns`: what is counted, by its
    name in a report. `done`: by script, as they are run, by whatever process."""

    key: str
    path: Path
    text: str
    columns: Mapping[str, str]
    done: dict[str, Report] = field(default_factory=dict)

    def hear(self, report: Any) -> None:
        """What a test tells as pytest reports it."""
        for key, value in report.user_properties:
            if key == self.key and report.when == "call":
                name, done, left_out = value
                counts = Counter({(what, why): count for what, why, count in left_out})
                self.done[name] = Report(Counter(done), counts)

    def finish(self, terminal: Any) -> None:
        """Tells people at the end, where all scripts have been run; with `--update` on the page,
        too."""
        if not self.complete:
            return
        terminal.write_line(self.table())
        if terminal.config.getoption("--update"):
            self.path.write_text(self.text + self.table())

    @property
    def complete(self) -> bool:
        return self.done.keys() == {s.name for s in STREAMING}

    @property
    def together(self) -> Report:
        """The sum of all."""
        whole = Report()
        for report in self.done.values():
            whole.add(report)
        return whole

    def table(self) -> str:
        """Scripts are summed up by their folders."""
        areas: dict[str, Report] = {}
        for name, report in sorted(self.done.items()):
            areas.setdefault(str(Path(name).parent), Report()).add(report)
        lines = [f"{len(self.done)} of {len(STREAMING)} scripts, by folder:", ""]
        lines += [
            "| area | " + " | ".join(self.columns.values()) + " |",
            "|---" * (len(self.columns) + 1) + "|",
        ]
        lines += [self._line(area, report.done) for area, report in areas.items()]
        whole = self.together
        lines += [self._line("all", whole.done), "", "Left out:", ""]
        left_out = sorted(
            whole.left_out.items(), key=lambda item: (item[0][0], -item[1], item[0][1])
        )
        lines += [f"- {what}, {count} statements: {why}" for (what, why), count in left_out]
        return "\n".join(lines) + "\n"

    def _line(self, name: str, done: Counter[str]) -> str:
        return f"| {name} | " + " | ".join(f"{done[c]:,}" for c in self.columns) + " |"
