"""Every golden script gives what real Flink gives, whatever the size of batches; see golden.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

from planner.settings import MINI_BATCH
from tests.sql.golden import (
    FOLDER,
    Answer,
    Script,
    answers,
    events_of,
    header,
    left_in_the_end,
    lines_of,
    run,
    scripts,
)
from tests.sql.record import ask

SCRIPTS = scripts()
DIFFERENCES = FOLDER / "differences.md"
DEFAULT = 4096
ASKED = 3
SMALL = (1, 3)

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.name)


def reads(script: Script) -> Iterator[ParameterSet]:
    """The rows of a read with which a script runs. Of small reads one at most is quick, by the
    script's name: a third of the scripts run row by row, a third in threes."""
    quick = (*SMALL, DEFAULT)[crc32(script.name.encode()) % (len(SMALL) + 1)]
    for rows in (*SMALL, DEFAULT):
        marks = () if rows in (quick, DEFAULT) else (pytest.mark.slow,)
        yield pytest.param(script, rows, marks=marks, id=f"{script.name}-{rows}")


def flink_says(script: Script) -> dict[int, Answer]:
    """The recorded answers; fails where they are of another script or other data."""
    first, *events = events_of(script.beside(".expected.jsonl").read_text())
    assert first == header(script), (
        f"{script.name} has changed: record it with python -m tests.sql.record"
    )
    return answers(script, events)


def wanted(script: Script) -> dict[int, Answer]:
    """What we must say: Flink's answers, but our own where the script says that they differ."""
    expected = flink_says(script)
    if script.differs:
        own = answers(script, events_of(script.beside(".ours.jsonl").read_text()))
        assert own.keys() <= script.differs.keys()
        for number in script.differs:
            assert own.get(number) != expected.get(number), (
                f"statement {number} does not differ any more"
            )
            expected.pop(number, None)
        expected |= own
    return expected


def difference(script: Script, found: dict[int, Answer], expected: dict[int, Answer]) -> str:
    """What a person needs to see why it failed."""
    lines = []
    for number, piece in enumerate(script.pieces):
        if found.get(number) != expected.get(number):
            lines += [f"statement {number}, line {piece.position.line}: {piece.sql}"]
            lines += [
                "  wanted",
                *shown(expected.get(number)),
                "  found",
                *shown(found.get(number)),
            ]
    return "\n".join(lines)


def shown(answer: Answer | None) -> list[str]:
    if not isinstance(answer, list):
        return ["    " + (answer or "no error, no rows")]
    return ["    " + line for line in answer]


@pytest.mark.parametrize(
    ("script", "rows_per_read"), [read for script in SCRIPTS for read in reads(script)]
)
def test_goldens(script: Script, rows_per_read: int, tmp_path: Path, update: bool) -> None:
    events, messages = run(script, tmp_path, rows_per_read)
    own = [e for e in events if e["stmt"] in script.differs]
    if update and rows_per_read == DEFAULT:
        _write(script.beside(".errors.txt"), messages)
        _write(script.beside(".ours.jsonl"), lines_of(own))
    found, expected = answers(script, events), wanted(script)
    assert found == expected, difference(script, found, expected)
    if rows_per_read == DEFAULT:
        assert messages == _read(script.beside(".errors.txt"))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            s, id=s.name, marks=() if crc32(s.name.encode()) % 3 == 0 else (pytest.mark.slow,)
        )
        for s in SCRIPTS
    ],
)
def test_mini_batch_leaves_the_same_in_the_end(script: Script, tmp_path: Path) -> None:
    events, _ = run(script, tmp_path, DEFAULT, {MINI_BATCH: "true"})
    found = {n: left_in_the_end(a) for n, a in answers(script, events).items()}
    expected = {n: left_in_the_end(a) for n, a in wanted(script).items()}
    assert found == expected, difference(script, found, expected)


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    if text:
        path.write_text(text)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_differences_are_listed(update: bool) -> None:
    parts = [p for s in SCRIPTS for p in described(s)]
    text = DIFFERENCES.read_text().partition("\n## ")[0].rstrip() + "\n\n" + "\n".join(parts)
    if update:
        DIFFERENCES.write_text(text)
    assert DIFFERENCES.read_text() == text


def described(script: Script) -> list[str]:
    """A section of differences.md for each statement that differs: the rows that only one side
    has."""
    sections = []
    theirs, ours = flink_says(script), wanted(script)
    for number, reason in script.differs.items():
        flink, here = shown(theirs.get(number)), shown(ours.get(number))
        lines = [f"    Flink {x.strip()}" for x in flink if x not in here]
        lines += [f"    here  {x.strip()}" for x in here if x not in flink]
        sql = script.pieces[number].sql
        sections.append(f"## {script.name}: {reason}\n\n    {sql};\n\n" + "\n".join(lines) + "\n")
    return sections


def test_no_file_is_left_over() -> None:
    known = {s.path.with_suffix("") for s in SCRIPTS}
    beside = {
        p.with_name(p.name.split(".")[0])
        for p in FOLDER.glob("*/*.*")
        if p.parent.name not in ("data",)
    }
    assert {p for p in beside if p.parent.name != "__pycache__"} == known


@pytest.mark.oracle
@pytest.mark.slow
@each_script
def test_flink_still_says_so(script: Script, flink: Any) -> None:
    """Asks the real Flink again. What several inputs of one operator meet there is now and then a
    matter of the threads of a busy machine, so a statement with another answer is asked up to three
    times."""
    first, *kept = events_of(script.beside(".expected.jsonl").read_text())
    assert first == header(script)
    expected = answers(script, kept)
    found: dict[int, Answer] = {}
    for _ in range(ASKED):
        again = answers(script, ask(flink, script))
        found |= {
            n: a for n, a in again.items() if found.get(n) != expected.get(n) or n not in found
        }
        if found == expected:
            break
    assert found == expected, difference(script, found, expected)
