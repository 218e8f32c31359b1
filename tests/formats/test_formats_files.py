"""Whole files are read as Flink 2.3 reads them; see file_cases.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session
from tests.formats import file_cases
from tests.formats.file_cases import Answer, Case
from tests.sql.golden import Collected

CASES = [(case, variant) for case in file_cases.cases() for variant in case.variants]
GOLDEN = file_cases.answers()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with open_runner(tmp_path_factory.mktemp("data")) as opened:
        yield opened


def ours(runner: Runner, case: Case, variant: str, folder: Path) -> list[Answer]:
    """What we make of the files of a case, each read as a table of its own."""
    script, found = "", Collected("")
    for number, file in enumerate(case.files):
        path = folder / f"f{number}"
        path.write_bytes(file.content)
        script += case.ddl(f"t{number}", variant, path) + case.query(f"t{number}")
    Session(runner, found).run(script)
    answers: list[Answer] = [[] for _ in case.files]
    for event in found.events:
        number, answer = event["stmt"] // 2, answers[event["stmt"] // 2]
        if event["kind"] == "error":
            answers[number] = "error"
        elif event["kind"] == "row" and isinstance(answer, list):
            answer.append(event["row"])
    return answers


@pytest.mark.parametrize(
    ("case", "variant"), CASES, ids=lambda x: x.name if isinstance(x, Case) else x or "default"
)
def test_files_are_read_as_flink_reads_them(
    case: Case, variant: str, runner: Runner, tmp_path: Path, update: bool
) -> None:
    found = {
        f.text: answer
        for f, answer in zip(case.files, ours(runner, case, variant, tmp_path), strict=True)
    }
    golden, own = GOLDEN[case.name][variant], file_cases.own_answers()
    different = {text: answer for text, answer in found.items() if answer != golden[text]}
    if update:
        file_cases.save_own(own, case.name, variant, different)
    unexplained = [f.text for f in case.files if f.text in different and not f.differs]
    assert not unexplained, "\n".join(
        f"{t!r}\n  Flink {golden[t]}\n  here  {found[t]}" for t in unexplained
    )
    assert different == own.get(case.name, {}).get(variant, {})


@pytest.mark.oracle
@pytest.mark.slow
def test_flink_still_reads_them_so(flink: Any, tmp_path: Path) -> None:
    for case, variant, file, answer in file_cases.ask(flink, tmp_path, {}):
        assert answer == GOLDEN[case.name][variant][file.text], (case.name, variant, file.text)
