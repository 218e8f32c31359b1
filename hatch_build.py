"""Wheel only: parser/, udf/, rules/, planner/ and server.py travel inside `sqlengine`.

Their names are short and belong to nobody, so they would collide in site-packages with other
distributions and with a user's own `parser.py`. In the repository and in an editable install they
stay where they are.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sqlengine"
INNER = ("parser", "udf", "rules", "planner", "server")
IGNORED = shutil.ignore_patterns("__pycache__", "*.py[co]")
STATEMENT_HEAD = re.compile(rb"(?:from|import)(?:\s|\\\r?\n)+")


class NamespaceHook(BuildHookInterface[Any]):
    """Stages a copy of the sources in a temporary folder and puts that into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.staging = Path(tempfile.mkdtemp(prefix="sqlengine-wheel-"))
        stage(Path(self.root), self.staging / PACKAGE)
        build_data["force_include"][str(self.staging / PACKAGE)] = PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self.staging, ignore_errors=True)


def stage(root: Path, target: Path) -> None:
    """Copy `sqlengine/` to `target` and the other packages into it, with their imports
    rewritten."""
    shutil.copytree(root / PACKAGE, target, ignore=IGNORED)
    for name in INNER:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=IGNORED)
        elif (root / f"{name}.py").is_file():
            shutil.copy2(root / f"{name}.py", target)
    rewrite_tree(target)


def rewrite_tree(folder: Path) -> None:
    """Rewrite the imports of every Python file in `folder`, in place."""
    for path in sorted(folder.rglob("*.py")):
        path.write_bytes(rewrite(path.read_bytes(), str(path.relative_to(folder))))


def rewrite(source: bytes, filename: str = "<source>") -> bytes:
    """`source` with `from parser.x import y` as `from sqlengine.parser.x import y`, at whatever
    depth it stands.

    Works on syntax, not on lines: strings, comments and names that merely look alike stay as they
    are. Raises SyntaxError for what cannot be rewritten: `import parser` without `as`, a module
    named in a string.
    """
    starts = _line_starts(source)
    inserts = {
        starts[line] + column
        for line, column in _module_names(ast.parse(source, filename), filename)
    }
    for offset in sorted(inserts, reverse=True):
        head = STATEMENT_HEAD.match(source, offset)
        place = head.end() if head else offset
        source = source[:place] + PACKAGE.encode() + b"." + source[place:]
    return source


def _module_names(tree: ast.Module, filename: str) -> Iterator[tuple[int, int]]:
    """(line, column in bytes) of each import of ours: its `from`, or the name in an `import`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_inner(node.module):
            yield node.lineno, node.col_offset
        elif isinstance(node, ast.Import):
            for name in node.names:
                if _is_inner(name.name):
                    if name.asname is None:
                        raise _refused("write `from ... import` or `import ... as`", filename, node)
                    yield name.lineno, name.col_offset
        elif isinstance(node, ast.Call) and _imports_by_name(node):
            raise _refused("a module named in a string is not found in the wheel", filename, node)


def _imports_by_name(call: ast.Call) -> bool:
    function = (
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    )
    if function not in ("import_module", "__import__", "find_spec", "run_module") or not call.args:
        return False
    first = call.args[0]
    return (
        isinstance(first, ast.Constant) and isinstance(first.value, str) and _is_inner(first.value)
    )


def _is_inner(module: str | None) -> bool:
    return module is not None and module.split(".", 1)[0] in INNER


def _refused(reason: str, filename: str, node: ast.expr | ast.stmt) -> SyntaxError:
    return SyntaxError(reason, (filename, node.lineno, node.col_offset + 1, None))


def _line_starts(source: bytes) -> list[int]:
    """Offsets of the lines, counted from 1 as `ast` does."""
    starts = [0, 0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
