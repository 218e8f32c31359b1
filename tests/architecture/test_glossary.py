"""The glossary names classes and functions that exist."""

from __future__ import annotations

import ast
import re

from tests.architecture.structure import modules
from tests.support import ROOT

ROW = re.compile(r"^\| (?P<term>[^|]+) \|[^|]+\|[^|]*\| (?P<code>`[^`]+`) \|$", re.MULTILINE)


def defined_names() -> set[str]:
    """Classes, functions, methods (`Class.method`) and names of types of all packages."""
    names = set()
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                members = [n for n in node.body if isinstance(n, ast.FunctionDef)]
                names |= {f"{node.name}.{member.name}" for member in members}
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def test_every_term_names_what_exists() -> None:
    rows = ROW.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    terms = [term for term, _ in rows if term != "term"]
    assert 40 <= len(terms) == len(set(terms)) <= 70
    missing = {code.strip("`") for _, code in rows} - defined_names()
    assert not missing
