"""Python functions of a program, such as those of a notebook, as modules that an engine loads."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import LambdaType, ModuleType
from typing import Final, TypeAlias

from parser.errors import ServiceError
from parser.writer.names import backticked
from sqlengine.connection.jobs import JobResult
from sqlengine.functions.process_sdk import TableRow

# Submits a job: its name, its text, sources of modules by file name.
Submit: TypeAlias = Callable[[str, str, Mapping[str, str]], JobResult]
_PLAIN: Final = (bool, int, float, str, bytes, type(None), tuple, list, dict, set, frozenset)


def register_function(
    submit: Submit, function: Callable[..., object], name: str | None
) -> JobResult:
    """See `Connection.register_function`."""
    own = str(getattr(function, "__name__", ""))
    name = name or own
    module = f"from_python_{name.lower()}"
    source = module_source(function)
    sql = f"CREATE FUNCTION {backticked(name)} AS '{module}.{own}' LANGUAGE PYTHON"
    return submit(f"function.{name}", sql, {f"{module}.py": source})


def module_source(function: Callable[..., object]) -> str:
    """Returns a module with a function and all that it uses of its own one. ServiceError for what
    has no source, or uses what cannot be written down."""
    pieces: dict[str, str] = {}
    _collect(function, pieces, str(getattr(function, "__name__", function)))
    return "from __future__ import annotations\n\n" + "\n".join(pieces.values())


def lambda_source(function: LambdaType, name: str, inputs: Sequence[str], result: str) -> str:
    """Returns a module with a lambda as a function of that name, and all that it uses.

    `inputs` and `result` are its types in SQL. ServiceError for one whose source is not known."""
    node = _lambda_node(function)
    parameters = [a.arg for a in node.args.args]
    pieces = {"udf": "from sqlengine import udf\n"}
    around = _globals(function)
    for used in _names(ast.unparse(node.body)):
        if used in around and used not in pieces and used not in parameters:
            _add(used, around[used], pieces, "lambda")
    pieces[name] = (
        f"@udf(input_types={[*inputs]!r}, result_type={result!r})\n"
        f"def {name}({', '.join(parameters)}):\n    return {ast.unparse(node.body)}\n"
    )
    return "\n".join(pieces.values())


def _lambda_node(function: LambdaType) -> ast.Lambda:
    """The lambda in the text that it comes from: of several in a line the one at its place."""
    try:
        lines, _ = inspect.findsource(function)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError) as error:
        raise ServiceError(
            "the source of a lambda is not known",
            detail=str(error),
            hint="write it in a file or a cell of a notebook, or as text in SQL",
        ) from None
    first, code = function.__code__.co_firstlineno, function.__code__
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == first]
    places = [(p[0], p[2]) for p in code.co_positions() if p[0] and p[2] and p[2] != p[3]]
    within = [n for n in nodes if places and _has(n.body, min(places))]
    return (within or nodes)[-1]


def _has(body: ast.expr, place: tuple[int, int]) -> bool:
    begin = (body.lineno, body.col_offset)
    return begin <= place < (body.end_lineno or 0, body.end_col_offset or 0)


def _collect(target: object, pieces: dict[str, str], name: str) -> None:
    """Adds the source of a function or class, behind that of what it uses."""
    source = _source(target, name)
    pieces[name] = ""  # it may use itself
    around = _globals(target)
    for used in _names(source):
        if used in around and used not in pieces:
            _add(used, around[used], pieces, name)
    del pieces[name]
    pieces[name] = source


def _add(name: str, value: object, pieces: dict[str, str], user: str) -> None:
    if isinstance(value, ModuleType) and _importable(value):
        pieces[name] = f"import {value.__name__} as {name}\n"
        return
    home, own = str(getattr(value, "__module__", "")), getattr(value, "__qualname__", name)
    if home.startswith("sqlengine."):  # users import from the package alone
        home = "sqlengine"
    if value is TableRow:
        pieces[name] = f"from sqlengine import TableRow as {name}\n"
    elif isinstance(value, type) or inspect.isroutine(value):
        if _is_ours(value):
            _collect(value, pieces, name)
        else:
            pieces[name] = f"from {home} import {own} as {name}\n"
    elif isinstance(value, _PLAIN) and _is_literal(value):
        pieces[name] = f"{name} = {value!r}\n"
    elif home == "typing":
        pieces[name] = f"from typing import {name}\n"
    else:
        raise ServiceError(
            f"'{user}' uses '{name}', a {type(value).__name__}, which cannot be sent",
            hint="make it inside of the function, or put all into a module: docs/user-functions.md",
        )


def _is_ours(value: object) -> bool:
    """True for what stands in a notebook, a script or a test, which the engine cannot import."""
    module = inspect.getmodule(value)
    return module is None or not _importable(module)


def _importable(module: ModuleType) -> bool:
    """True for a module of Python itself, or of an installed package."""
    first, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
    known = first in sys.stdlib_module_names and first != "__main__"
    return known or first == "sqlengine" or (file is not None and "site-packages" in file)


def _source(target: object, name: str) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(target))  # type: ignore[arg-type]
    except (OSError, TypeError) as error:
        if isinstance(target, type) and (cell := _class_of_cell(target.__name__)) is not None:
            return cell
        raise ServiceError(
            f"the source of function '{name}' is not known",
            detail=str(error),
            hint="define it with def in a cell of a notebook or in a file",
        ) from None
    try:
        (node,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        node = None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        raise ServiceError(
            f"'{name}' is no function of its own", hint="define it with def, not with lambda"
        )
    return source


def _class_of_cell(name: str) -> str | None:
    """The source of a class that was defined last under its name in a cell of a notebook: Python
    finds those of functions alone."""
    for file in reversed(list(linecache.cache)):
        if os.path.exists(file):
            continue
        lines = linecache.getlines(file)
        with suppress(SyntaxError, ValueError):
            for node in ast.parse("".join(lines)).body:
                if isinstance(node, ast.ClassDef) and node.name == name:
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    return "".join(lines[first - 1 : node.end_lineno])
    return None


def _globals(target: object) -> Mapping[str, object]:
    if inspect.isfunction(target):
        found = inspect.getclosurevars(target)
        if found.nonlocals:
            raise ServiceError(
                f"function '{target.__name__}' uses '{next(iter(found.nonlocals))}' of the function"
                " around it",
                hint="define it on its own, at the top level",
            )
        return target.__globals__
    methods = [v for v in vars(target).values() if inspect.isfunction(v)]
    if methods:
        return methods[0].__globals__
    module = inspect.getmodule(target)
    return {} if module is None else vars(module)


def _names(source: str) -> Iterator[str]:
    """Yields the names that a source uses, its annotations and decorators included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _is_literal(value: object) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
