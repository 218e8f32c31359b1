"""What users import: from `sqlengine` only, and nothing is loaded before it is used."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlengine
from hatch_build import INNER
from tests.support import ROOT

PYTHON = re.compile(r"^```(?:python|py|pycon)\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
# What takes its time and memory, and a client or a decorator has no use for.
HEAVY = {"arro3", "flask", "hyperscan", "numpy", "pyarrow", "regex", "rocksdict", "sqlglot"}


def python_of_the_documents() -> Iterator[tuple[str, str]]:
    """Yields where each block of Python stands, and its text."""
    for path in DOCUMENTS:
        for number, block in enumerate(PYTHON.findall(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}, block {number}", block
    for path in EXAMPLES:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Yields (module, name) of each import; the name is empty where a module is imported."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_documents_import_public_names_only() -> None:
    ours = [
        (where, module, name)
        for where, text in python_of_the_documents()
        for module, name in imports(text)
        if module.split(".")[0] in ("sqlengine", *INNER)
    ]
    assert ours
    for where, module, name in ours:
        assert module == "sqlengine", f"{where}: import from {module}"
        assert name in (*sqlengine.__all__, "dbapi"), f"{where}: {name} is not public"


def test_each_public_name_is_there() -> None:
    assert sqlengine.__all__ == sorted(sqlengine.__all__)
    assert set(sqlengine.__all__) <= set(dir(sqlengine))
    for name in sqlengine.__all__:
        assert getattr(sqlengine, name) is not None
    misspelt = "Engin"
    with pytest.raises(AttributeError, match="no attribute 'Engin'"):
        getattr(sqlengine, misspelt)


EXPECTED = (
    '{"id":2}',
    "[{'item': 'a', 'total': 40}, {'item': 'b', 'total': 20}]",
    "[{'op': '+I', 'device': 'd1', 'v': 19.9}]",
    "[{'a': 'user-0007'}]",
    "[('be', 2), ('not', 1), ('or', 1), ('to', 2)]\n[{'word': 'not', 'twice': 2}]",
    "Large numbers",
)


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_the_document_of_python_runs(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = PYTHON.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8"))
    assert len(blocks) == len(EXPECTED)
    script = tmp_path / "document.py"  # a file: the source of functions is read from it
    script.write_text(blocks[number])
    runpy.run_path(str(script))
    assert EXPECTED[number] in capsys.readouterr().out


def loaded_by(code: str, folder: Path) -> set[str]:
    """Returns the packages that a new process has loaded once it has run `code`."""
    ending = "; import sys; print('loaded', *{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code + ending], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.rsplit("loaded ", 1)[1].split())


_JOBS = (
    "from sqlengine.cli import cli; cli.main(['jobs', '--server', 'http://127.0.0.1:9'],"
    " standalone_mode=False)"
)


@pytest.mark.parametrize(
    ("code", "most"),
    [("import sqlengine", 36), ("from sqlengine import connect", 170), (_JOBS, 215)],
)
def test_beginning_loads_few_modules(code: str, most: int, tmp_path: Path) -> None:
    """Each is half a millisecond, and more where the disk is busy. Their number tells what time
    would, on any machine: who raises one of these looks at `python -X importtime` first."""
    counted = f"import sys; before = len(sys.modules); {code}; print(len(sys.modules) - before)"
    run = subprocess.run(
        [sys.executable, "-c", counted], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.splitlines()[-1]) <= most


@pytest.mark.parametrize(
    "code", ["import sqlengine", "from sqlengine import sink, udaf, udf, udtf"]
)
def test_importing_loads_nothing_heavy(code: str, tmp_path: Path) -> None:
    others = {"click", "msgspec", "planner", "rich", "ssl"}
    assert not loaded_by(code, tmp_path) & (HEAVY | others)


@pytest.mark.parametrize("names", ["Client", "SqlError, Config, Refused, connect"])
def test_a_client_loads_nothing_heavy(names: str, tmp_path: Path) -> None:
    code = f"from sqlengine{'.client' * (names == 'Client')} import {names}"
    assert not loaded_by(code, tmp_path) & (HEAVY | {"click", "rich"})


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "jobs",
        "jobs a --output json",
        "submit a.sql -D limit=1",
        "validate a.sql",
        "explain a",
        "stop a --savepoint",
        "savepoint list",
        "dead-letters a",
        "instances",
        "topic list",
        "topic write events a.sql",
        "serve --help",
    ],
)
def test_commands_for_a_server_load_nothing_heavy(command: str, tmp_path: Path) -> None:
    """No server answers: each ends with 3, after all that it loads."""
    (tmp_path / "a.sql").write_text("INSERT INTO alerts SELECT id FROM events LIMIT ${limit}")
    arguments = command.split()
    if "--help" not in arguments:
        arguments += ["--server", "http://127.0.0.1:9"]
    code = (
        f"import click; from sqlengine.cli import cli; code = cli.main({arguments},"
        f" standalone_mode=False); assert code == {0 if '--help' in arguments else 3}, code"
    )
    assert not loaded_by(code, tmp_path) & (HEAVY | {"msgspec", "rich"})
