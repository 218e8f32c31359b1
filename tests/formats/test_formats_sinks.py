"""Values of every type are written as Flink 2.3 writes them, byte for byte; see sink_cases.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session
from tests.formats import sink_cases
from tests.formats.sink_cases import Case, written
from tests.sql.golden import Collected

CASES = [(case, form) for case in sink_cases.cases() for form in case.forms()]
GOLDEN = sink_cases.answers()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with open_runner(tmp_path_factory.mktemp("data")) as opened:
        yield opened


def ours(runner: Runner, case: Case, form: tuple[str, str], folder: Path) -> list[str]:
    """What we write for each value of the case."""
    script, found = "", Collected("")
    for number, value in enumerate(case.values):
        script += case.script(f"s{number}", form, value.text, folder / f"s{number}")
    Session(runner, found).run(script)
    failed = {e["stmt"] // 3 for e in found.events if e["kind"] == "error"}
    return ["error" if n in failed else written(folder / f"s{n}") for n in range(len(case.values))]


@pytest.mark.parametrize(
    ("case", "form"), CASES, ids=lambda x: x.name if isinstance(x, Case) else sink_cases.key(x)
)
def test_values_are_written_as_flink_writes_them(
    case: Case, form: tuple[str, str], runner: Runner, tmp_path: Path
) -> None:
    golden = GOLDEN[case.name][sink_cases.key(form)]
    wrong = []
    for value, found in zip(case.values, ours(runner, case, form, tmp_path), strict=True):
        expected = golden[value.text]
        if not value.differs and found != expected:
            wrong.append(f"{value.text}\n  Flink {expected!r}\n  here  {found!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", sink_cases.cases(), ids=lambda c: c.name)
def test_differences_are_differences(case: Case, runner: Runner, tmp_path: Path) -> None:
    """What is marked as different is so in some form."""
    doubtful = replace(case, values=[v for v in case.values if v.differs])
    marked = {v.text for v in doubtful.values}
    for number, form in enumerate(case.forms() if marked else ()):
        folder = tmp_path / str(number)
        folder.mkdir()
        golden = GOLDEN[case.name][sink_cases.key(form)]
        found = zip(doubtful.values, ours(runner, doubtful, form, folder), strict=True)
        marked -= {value.text for value, answer in found if answer != golden[value.text]}
    assert not marked


@pytest.mark.oracle
@pytest.mark.slow
def test_flink_still_writes_them_so(flink: Any, tmp_path: Path) -> None:
    for case, form, value, answer in sink_cases.ask(flink, tmp_path, {}):
        assert answer == GOLDEN[case.name][sink_cases.key(form)][value.text], (
            case.name,
            form,
            value.text,
        )
