"""Data files of SQL with what must come of it: lines that begin with `-->` hold the expectation for
the SQL above."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "-->"


@dataclass(frozen=True)
class Case:
    """One piece of SQL (with all comments that stand above it) and its expectation."""

    sql: str
    expected: str


def read(path: Path) -> Iterator[Case]:
    sql: list[str] = []
    expected: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith(MARK):
            expected.append(line.removeprefix(MARK).removeprefix(" "))
            continue
        if expected:
            yield Case("\n".join(sql), "\n".join(expected))
            sql, expected = [], []
        if line or sql:
            sql.append(line)
    if any(sql) or expected:
        yield Case("\n".join(sql), "\n".join(expected))


def check(path: Path, outcome: Callable[[str], str], update: bool) -> None:
    """Compare `outcome` of every case with its expectation, or write it into the file."""
    cases = [Case(c.sql.rstrip("\n"), c.expected) for c in read(path)]
    found = [outcome(case.sql) for case in cases]
    if update:
        path.write_text("\n".join(map(_write, cases, found)), encoding="utf-8")
    assert len(cases) > 0
    for case, text in zip(cases, found, strict=True):
        assert update or text == case.expected, case.sql


def _write(case: Case, outcome: str) -> str:
    lines = (f"{MARK} {line}".rstrip() for line in outcome.split("\n"))
    return case.sql + "\n" + "\n".join(lines) + "\n"
