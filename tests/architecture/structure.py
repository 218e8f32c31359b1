"""Measures the structure of the code: folders, imports, docstrings, lines.

    python -m tests.architecture.structure

prints the figures as a table."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support import ROOT

PACKAGES = ("parser", "udf", "rules", "planner", "sqlengine")
# A docstring says what a thing is or does; these first words leave out which thing is meant.
NO_SUBJECT = re.compile(
    r"(Of|Those|That|The same|What|Where|Which|Whose|Who|When|Whether|How|As|For|From|By|With"
    r"|Without|Within|Behind|Besides|Before|Until|Nobody|Not|It|They|He|She|There|And|Or|But"
    r"|Is|Are|Was|May|Can|Must)\b"
)
_COMMENT = re.compile(r"^\s*# (?!-)|\S  # (?!noqa|type:)")
_Defined = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """One source file: `name` is its dotted name, that of the folder for an `__init__.py`."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def docstrings(self) -> Iterator[tuple[int, str]]:
        """The line of each definition that has a docstring, and the docstring."""
        for node in ast.walk(self.tree):
            if isinstance(node, _Defined) and (doc := ast.get_docstring(node)):
                yield getattr(node, "lineno", 1), doc

    def imports(self, known: Mapping[str, Module]) -> set[str]:
        """The modules of `known` that this one imports, within functions too."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    inner = f"{node.module}.{name.name}"
                    found.add(inner if inner in known else node.module)
            elif isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
        return (found & known.keys()) - {self.name}


def modules() -> dict[str, Module]:
    """All modules of the packages by their dotted names."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            name = name.removesuffix(".__init__")
            found[name] = Module(name, path)
    return found


def files_by_folder(known: Mapping[str, Module]) -> Counter[str]:
    """The number of Python files that lie directly in each folder."""
    return Counter(str(m.path.parent.relative_to(ROOT)) for m in known.values())


def import_graph(known: Mapping[str, Module]) -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: module.imports(known) for name, module in known.items()}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or through others, each sorted."""
    return [sorted(c) for c in components(graph) if len(c) > 1]


def components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components, each behind those that it imports (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            start = stack.index(node)
            found.append(stack[start:])
            del stack[start:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


def import_depth(graph: Mapping[str, set[str]]) -> int:
    """The number of modules on the longest chain of imports; a circle counts all its modules."""
    depth: dict[str, int] = {}
    for members in components(graph):
        below = {o for m in members for o in graph[m]} - set(members)
        height = len(members) + max((depth[o] for o in below), default=0)
        depth.update(dict.fromkeys(members, height))
    return max(depth.values())


def without_subject(known: Mapping[str, Module]) -> list[str]:
    """`file:line: first line` of each docstring that begins without a subject."""
    return [
        f"{module.path.relative_to(ROOT)}:{line}: {doc.splitlines()[0]}"
        for module in known.values()
        for line, doc in module.docstrings()
        if NO_SUBJECT.match(doc)
    ]


def figures() -> dict[str, str]:
    """The table of figures."""
    known = modules()
    folders = files_by_folder(known)
    graph = import_graph(known)
    lines = [line for m in known.values() for line in m.lines]
    comments = sum(1 for line in lines if _COMMENT.search(line))
    docs = sum(1 for m in known.values() for _ in m.docstrings())
    largest, count = folders.most_common(1)[0]
    return {
        "files": str(len(known)),
        "folders": str(len(folders)),
        "most files in a folder": f"{count} ({largest})",
        "loose modules of sqlengine": str(folders["sqlengine"] - 1),
        "circles of imports": str(len(circles(graph))),
        "depth of imports": str(import_depth(graph)),
        "docstrings": str(docs),
        "docstrings without a subject": str(len(without_subject(known))),
        "lines": str(len(lines)),
        "lines over 100": str(sum(1 for line in lines if len(line) > 100)),
        "files over 400 lines": str(sum(1 for m in known.values() if len(m.lines) > 400)),
        "lines with a comment": f"{comments} ({100 * comments / len(lines):.1f} %)",
    }


if __name__ == "__main__":
    for name, value in figures().items():
        print(f"{name:32} {value}")
