"""ARCHITECTURE.md names files and lines: each is where the page says that it is.

`pytest --update tests/architecture/test_references.py` writes the present line numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support import ROOT

PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
# A reference is `planner/plan.py:31` `plan`: the line on which the definition begins.
REFERENCE = re.compile(r"`(?P<path>[\w/]+\.py):(?P<line>\d+)` +`(?P<name>[\w.]+)")
# Everything else in backticks that looks like a file or folder of ours.
PATH = re.compile(
    r"`((?:parser|udf|rules|planner|sqlengine|tests|docs|examples|benchmarks)/[\w/.-]*)`"
)


@cache
def definitions(path: str) -> dict[str, int]:
    """The line of each class, function, method (`Class.method`) and assigned name of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return dict(_definitions(tree.body, ""))


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node.lineno
            yield from _definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((prefix + t.id, node.lineno) for t in targets if isinstance(t, ast.Name))


def with_present_lines(text: str) -> str:
    """The page with the line on which each reference's definition stands now."""

    def present(match: re.Match[str]) -> str:
        path, name = match["path"], match["name"]
        assert (ROOT / path).is_file(), f"{path} does not exist"
        assert name in definitions(path), f"{path} defines no {name}"
        old, new = f"{path}:{match['line']}", f"{path}:{definitions(path)[name]}"
        return match[0].replace(old, new)

    return REFERENCE.sub(present, text)


def test_lines_are_those_of_the_definitions(update: bool) -> None:
    references = 0
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        references += len(REFERENCE.findall(text))
        if update:
            (ROOT / page).write_text(with_present_lines(text), encoding="utf-8")
        else:
            assert text == with_present_lines(text), f"run pytest --update on this file: {page}"
    assert references >= 15


def test_files_and_folders_exist() -> None:
    missing = {
        (page, path)
        for page in (*PAGES, "README.md", "docs/glossary.md")
        for path in PATH.findall((ROOT / page).read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    }
    assert not missing
