"""The wheel: nothing generic in site-packages, and it works where the repository is out of
sight."""

from __future__ import annotations

import ast
import subprocess
import zipfile
from pathlib import Path

import pytest

from hatch_build import INNER, rewrite
from tests.packaging.run_on_wheel import build_wheel, install
from tests.support import ROOT

REWRITTEN = [
    ("from parser import parse", "from sqlengine.parser import parse"),
    (
        "from udf.vector import (\n    Vector,\n    of,\n)",
        "from sqlengine.udf.vector import (\n    Vector,\n    of,\n)",
    ),
    ("from \\\n  planner import x", "from \\\n  sqlengine.planner import x"),
    ("import rules.predicate_index as g, os", "import sqlengine.rules.predicate_index as g, os"),
    (
        "def f():\n    'ü'; from server import main",
        "def f():\n    'ü'; from sqlengine.server import main",
    ),
    (
        "if TYPE_CHECKING: from parser.types import Schema  # from parser",
        "if TYPE_CHECKING: from sqlengine.parser.types import Schema  # from parser",
    ),
]
UNTOUCHED = [
    "from parsers import parser",
    "from sqlengine.parser import parser",
    "from . import parser",
    "text = '''\nfrom parser import x\n'''",
    "import os, argparse as parser",
]


@pytest.mark.parametrize(("before", "after"), [*REWRITTEN, *((text, text) for text in UNTOUCHED)])
def test_imports_are_rewritten(before: str, after: str) -> None:
    assert rewrite(before.encode()).decode() == after


@pytest.mark.parametrize(
    "text",
    ["import parser", "import udf.vector", "importlib.import_module('rules.predicate_index')"],
)
def test_what_would_break_in_the_wheel_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        rewrite(text.encode())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("environment"))


def test_wheel_holds_one_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"sqlengine", "sqlengine-0.1.0.dist-info"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    sources = {
        path.relative_to(ROOT).as_posix() for name in INNER for path in ROOT.glob(f"{name}/**/*.py")
    }
    assert {f"sqlengine/{name}" for name in sources} <= set(names)


def test_no_module_is_named_in_a_string(wheel: Path) -> None:
    """Such a name (`python -m planner.worker`) would be right in the repository and wrong in the
    wheel."""
    archive = zipfile.ZipFile(wheel)
    modules = {
        name.removesuffix(".py").replace("/", ".").removeprefix("sqlengine.")
        for name in archive.namelist()
    }
    modules = {name for name in modules if name.split(".")[0] in INNER and "." in name}
    for name in archive.namelist():
        if name.endswith(".py"):
            strings = {
                node.value
                for node in ast.walk(ast.parse(archive.read(name)))
                if isinstance(node, ast.Constant)
            }
            assert not modules & strings, f"{name} names a module in a string"


def test_wheel_works_in_an_empty_folder(python: Path, tmp_path: Path) -> None:
    """A user's own parser.py and rules.py lie beside it: they must not be taken for ours, nor ours
    for theirs."""
    for name in INNER:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    code = (
        "import sqlengine, sys; assert not {'parser', 'planner', 'rules', 'udf', 'server'} &"
        " set(sys.modules)"
    )
    subprocess.run([python, "-c", code], cwd=tmp_path, check=True)
    for command in ("sql", "sqlengine"):
        run = subprocess.run(
            [python.with_name(command), "--help"], cwd=tmp_path, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert "Usage:" in run.stdout


def test_every_module_of_the_wheel_can_be_imported(python: Path, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, sqlengine\nfor module in"
        " pkgutil.walk_packages(sqlengine.__path__, 'sqlengine.'):\n    if not"
        " module.name.endswith('__main__'):\n        try: importlib.import_module(module.name)\n   "
        "     except ModuleNotFoundError as error:\n            assert error.name in ('pyspark',"
        " 'pandas', 'py4j', 'sqlalchemy'), f'{module.name}: {error}'\n"
    )
    subprocess.run([python, "-c", code], cwd=tmp_path, check=True)
