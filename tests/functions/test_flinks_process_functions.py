"""Process functions give what Flink's give: equal ones, in Java and in Python, in equal scripts.

`flink/NAME.sql` holds statements, `NAME.expected.jsonl` what a real Flink says to them, recorded
with `pytest -m oracle --update`; directives above statements are those of the golden scripts
(tests/sql/golden.py)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parser.script import substitute
from sqlengine.session.environment import open_runner, script_library
from sqlengine.session.session import Session
from tests.sql.golden import (
    FLINK,
    Answer,
    Collected,
    Event,
    Script,
    answers,
    events_of,
    lines_of,
    recorded,
)
from tests.sql.test_goldens import difference
from tests.support import load_oracle, oracle_missing

FOLDER = Path(__file__).parent / "flink"
SCRIPTS = [Script(path) for path in sorted(FOLDER.glob("*.sql"))]
JAVA, PYTHON = FOLDER / "ProcessFunctions.java", FOLDER / "process_functions.py"
DATA = [FOLDER / "data" / name for name in ("moves.json", "scores.json")]

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.path.stem)


def text_of(script: Script, module: str, language: str) -> str:
    return substitute(
        script.text, {"DATA": str(FOLDER / "data"), "MODULE": module, "LANGUAGE": language}
    )


def header(script: Script) -> Event:
    """The versions of all that an answer depends on."""
    content = b"\0".join(path.read_bytes() for path in (script.path, JAVA, *DATA))
    return {"flink": FLINK, "sha256": hashlib.sha256(content).hexdigest()}


def wanted(script: Script) -> dict[int, Answer]:
    """What we must say: Flink's answers, but our own where the script says that they differ."""
    first, *events = events_of(script.beside(".expected.jsonl").read_text())
    assert first == header(script), "record it again: pytest -m oracle --update"
    expected = answers(script, events)
    own = script.beside(".ours.jsonl")
    ours = answers(script, events_of(own.read_text())) if own.exists() else {}
    for number in script.differs:
        assert ours.get(number) != expected.get(number), f"statement {number} differs no more"
        expected.pop(number, None)
    return expected | ours


@pytest.mark.parametrize("rows_per_read", [1, pytest.param(3, marks=pytest.mark.slow), 4096])
@each_script
def test_they_give_the_same(
    script: Script, rows_per_read: int, tmp_path: Path, update: bool
) -> None:
    (tmp_path / "mine.py").write_text(PYTHON.read_text())
    collected = Collected(script.text)
    with (
        open_runner(tmp_path / "data", rows_per_read) as runner,
        script_library(tmp_path / "data", str(tmp_path / "s.sql")) as library,
    ):
        Session(runner, collected, library=library).run(text_of(script, "mine.", "PYTHON"))
    messages = "\n\n".join(collected.messages) + "\n"
    own = [e for e in collected.events if e["stmt"] in script.differs]
    if update and rows_per_read == 4096:
        script.beside(".errors.txt").write_text(messages)
        script.beside(".ours.jsonl").write_text(lines_of(own))
    found, expected = answers(script, collected.events), wanted(script)
    assert found == expected, difference(script, found, expected)
    assert messages == script.beside(".errors.txt").read_text()


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Flink that knows the functions."""
    reason = oracle_missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("flink")
    module = load_oracle()
    path = f"{module.jars()}/*"
    command = ["javac", "-parameters", "-nowarn", "-d", str(folder), "-cp", path, str(JAVA)]
    subprocess.run(command, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLINK_EXTRA_JARS", str(folder))
        oracle = module.Oracle(log=folder / "flink.log")
    with oracle:
        yield oracle
    oracle.jvm.stdout.close()


@pytest.mark.oracle
@each_script
def test_flink_still_says_so(script: Script, flink: Any, tmp_path: Path, update: bool) -> None:
    text = text_of(script, "ProcessFunctions$", "JAVA")
    found = recorded(script, flink.run(text, keep_going=True, timeout_s=60), tmp_path)
    found = events_of(lines_of(found).replace(str(FOLDER), "${FOLDER}"))
    if update:
        script.beside(".expected.jsonl").write_text(lines_of([header(script), *found]))
    first, *kept = events_of(script.beside(".expected.jsonl").read_text())
    assert first == header(script)
    again, before = answers(script, found), answers(script, kept)
    assert again == before, difference(script, again, before)
