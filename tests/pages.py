"""Pages of docs/ that tests write: the golden scripts that they cover, and why not others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.sql.golden import Script, scripts

STREAMING: Final = tuple(s for s in scripts() if s.mode == "streaming")
# Name of a script, counts of what was done, and (what, why, count) of what was left out.
Coverage: TypeAlias = tuple[str, dict[str, int], list[tuple[str, str, int]]]


@dataclass
class Report:
    """Counts of what was done, and failures.

    `left_out`: number of statements by what was not done with them, and why. `refused`: messages of
    the session for statements that fail. `about`: the statement that runs."""

    done: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    about: str = ""

    def expect(self, what: str, difference: str) -> None:
        if difference:
            self.failures.append(f"{self.about}\n  {what}: {difference}")

    @contextmanager
    def recording_failures(self, what: str) -> Iterator[None]:
        """Records an error raised in the body as a failure, so that other statements still run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  reported with all others at the end
            self.expect(what, f"{type(error).__name__}: {error}")

    def add(self, other: Report) -> None:
        self.done += other.done
        self.left_out += other.left_out
        self.failures += other.failures

    def to_property(self, script: Script) -> Coverage:
        """Returns the counts as pytest carries them from process to process."""
        return (
            script.name,
            dict(self.done),
            [(*what, count) for what, count in self.left_out.items()],
        )


@dataclass(frozen=True)
class Page:
    """A page about the golden scripts that tests cover.

    `key`: name of the property in which tests report. `columns`: title of each count. `done`: the
    report of each script, from whatever process."""

    key: str
    path: Path
    text: str
    columns: Mapping[str, str]
    done: dict[str, Report] = field(default_factory=dict)

    def collect(self, report: Any) -> None:
        """Takes the counts out of the report of a test."""
        for key, value in report.user_properties:
            if key == self.key and report.when == "call":
                name, done, left_out = value
                counts = Counter({(what, why): count for what, why, count in left_out})
                self.done[name] = Report(Counter(done), counts)

    def write_summary(self, terminal: Any) -> None:
        """Prints the table once all scripts have run; with `--update` writes the page, too."""
        if not self.complete:
            return
        terminal.write_line(self.table())
        if terminal.config.getoption("--update"):
            self.path.write_text(self.text + self.table())

    @property
    def complete(self) -> bool:
        return self.done.keys() == {s.name for s in STREAMING}

    @property
    def total(self) -> Report:
        """The sum over all scripts."""
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
        whole = self.total
        lines += [self._line("all", whole.done), "", "Left out:", ""]
        left_out = sorted(
            whole.left_out.items(), key=lambda item: (item[0][0], -item[1], item[0][1])
        )
        lines += [f"- {what}, {count} statements: {why}" for (what, why), count in left_out]
        return "\n".join(lines) + "\n"

    def _line(self, name: str, done: Counter[str]) -> str:
        return f"| {name} | " + " | ".join(f"{done[c]:,}" for c in self.columns) + " |"
