"""Type hints as SQL types. Runs in the worker, beside the user's module: standard library only."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlengine.functions.sdk import AsyncDeclaration, Declaration

_SIMPLE: dict[object, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    decimal.Decimal: "DECIMAL(38, 18)",
    dt.date: "DATE",
    dt.time: "TIME(3)",
    dt.datetime: "TIMESTAMP(6)",
    dt.timedelta: "INTERVAL SECOND(3)",
}
_KNOWN = (
    "int, float, str, bytes, bool, Decimal, date, time, datetime, timedelta, list[…], dict[…, …],"
    " tuple[…], a dataclass, a NamedTuple, each also with | None, and Annotated[…, 'SQL TYPE']"
)


class BadSignature(Exception):
    """Raised for a function's declaration that is wrong, with a hint to the author."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    type: str
    takes_null: bool
    optional: bool


@dataclasses.dataclass(frozen=True)
class TableParameter:
    name: str
    columns: tuple[tuple[str, str], ...] | None


@dataclasses.dataclass(frozen=True)
class Process:
    """The traits of a process function, as `udf.user.ProcessTraits` has them."""

    tables: tuple[TableParameter, ...]
    state: str
    ttl_ms: int
    timers: bool
    keyless: bool
    passes_columns: bool
    timed: bool
    views: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Spec:
    """A function as `udf.user.UserFunction` describes it, in words that travel as JSON."""

    kind: str
    parameters: tuple[Parameter, ...]
    result: str
    gives_null: bool
    deterministic: bool
    vectorized: bool
    variadic: bool
    retracts: bool
    merges: bool
    doc: str
    process: Process | None = None
    asynchronous: bool = False


def sql_type(hint: object) -> tuple[str, bool]:
    """The SQL type of a hint, and whether it takes None. BadSignature for a hint without one."""
    inner, nullable = without_none(hint)
    if typing.get_origin(inner) is typing.Annotated:
        base, *notes = typing.get_args(inner)
        named = next((n for n in notes if isinstance(n, str)), None)
        return (
            (named, nullable or without_none(base)[1])
            if named
            else _or_null(sql_type(base), nullable)
        )
    return _plain(inner), nullable


def _or_null(type_: tuple[str, bool], nullable: bool) -> tuple[str, bool]:
    return type_[0], type_[1] or nullable


def without_none(hint: object) -> tuple[object, bool]:
    """T of `T | None` and True; any other hint and False."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [m for m in typing.get_args(hint) if m is not type(None)]
        if len(members) == 1 and len(typing.get_args(hint)) == 2:
            return members[0], True
    return hint, hint is None or hint is type(None)


def _plain(hint: object) -> str:
    simple = _SIMPLE.get(hint)
    if simple is not None:
        return simple
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, Sequence) and len(args) == 1:
        return f"ARRAY<{sql_type(args[0])[0]}>"
    if origin in (dict, Mapping) and len(args) == 2:
        return f"MAP<{sql_type(args[0])[0]}, {sql_type(args[1])[0]}>"
    if origin is tuple and args and Ellipsis not in args:
        return _row((f"f{i}", a) for i, a in enumerate(args))
    fields = fields_of(hint)
    if fields:
        return _row(fields)
    raise BadSignature(f"the hint {_shown(hint)} has no SQL type", f"there is {_KNOWN}")


def fields_of(hint: object) -> list[tuple[str, object]]:
    """Names and hints of a dataclass or NamedTuple; nothing for any other hint."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        known = typing.get_type_hints(hint, include_extras=True)
        return [(f.name, known[f.name]) for f in dataclasses.fields(hint)]
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        known = typing.get_type_hints(hint, include_extras=True)
        return [(n, known.get(n, typing.Any)) for n in hint._fields]
    return []


def _row(fields: Iterable[tuple[str, object]]) -> str:
    parts = []
    for name, hint in fields:
        try:
            parts.append(f"`{name}` {sql_type(hint)[0]}")
        except BadSignature as error:
            raise BadSignature(f"field '{name}': {error.message}", error.hint) from None
    return f"ROW<{', '.join(parts)}>"


def _shown(hint: object) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    """The hints by parameter, 'return' among them."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise BadSignature(
            f"a type hint cannot be resolved: {error}", "import the name in the module"
        ) from None


def describe_function(target: object, declared: Declaration) -> Spec:
    if not inspect.isfunction(target):
        raise BadSignature("it is no function", "@udf and @udtf decorate a def")
    waits = inspect.iscoroutinefunction(target)
    if waits is not isinstance(declared, AsyncDeclaration):
        raise BadSignature(
            "it is an async def" if waits else "it is no async def",
            f"decorate {'it with @async_udf or @async_udtf' if waits else 'an async def so'}",
        )
    parameters, variadic = parameters_of(target, declared.input_types, skip=0)
    table = declared.kind == "table"
    result, gives_null = _result(target, declared.result_type, table)
    if table:
        result = _as_row(result)
    return _spec(declared, parameters, result, gives_null, variadic, target.__doc__)


def _spec(
    declared: Declaration,
    parameters: tuple[Parameter, ...],
    result: str,
    gives_null: bool,
    variadic: bool,
    doc: str | None,
    retracts: bool = False,
    merges: bool = False,
) -> Spec:
    text = inspect.cleandoc(doc or "")
    return Spec(
        declared.kind,
        parameters,
        result,
        gives_null,
        declared.deterministic,
        declared.vectorized,
        variadic,
        retracts,
        merges,
        text,
        asynchronous=isinstance(declared, AsyncDeclaration),
    )


def _result(function: Callable[..., object], given: str | None, table: bool) -> tuple[str, bool]:
    """The result's type and whether it may be None. An explicit type may be NULL unless it says NOT
    NULL."""
    if given is not None:
        return _explicit(given)
    hints = hints_of(function)
    if "return" not in hints:
        raise BadSignature(
            "the result has no type hint",
            "write def f(x: int) -> int, or give result_type='BIGINT'",
        )
    hint = hints["return"]
    if table:
        args = typing.get_args(hint)
        if not args:
            raise BadSignature(
                "a table function gives rows",
                "write -> Iterator[tuple[str, int]], or give result_type",
            )
        hint = args[0]
    try:
        return sql_type(hint)
    except BadSignature as error:
        raise BadSignature(f"the result: {error.message}", error.hint) from None


def describe_row(hint: object) -> str:
    """The type of rows that are given as values of a hint. BadSignature for one that has none."""
    try:
        return _as_row(sql_type(hint)[0])
    except BadSignature as error:
        raise BadSignature(f"the result: {error.message}", error.hint) from None


def _as_row(kind: str) -> str:
    return kind if kind.upper().startswith("ROW") else f"ROW<`f0` {kind}>"


def _explicit(text: str) -> tuple[str, bool]:
    """A SQL type, and whether it may be NULL."""
    text = text.strip()
    strict = text.upper().endswith(" NOT NULL")
    return (text[: -len(" NOT NULL")] if strict else text), not strict


def parameters_of(
    function: Callable[..., object], given: tuple[str, ...] | None, skip: int
) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters behind the first `skip`, and whether the last one is `*args`."""
    found = list(inspect.signature(function).parameters.values())[skip:]
    hints = {} if given is not None else hints_of(function)
    if given is not None and len(given) != len(found):
        raise BadSignature(f"input_types has {len(given)} types for {len(found)} parameters")
    parameters = []
    for i, parameter in enumerate(found):
        if given is None:
            parameters.append(parameter_of(parameter, hints))
            continue
        check_place(parameter)
        kind, takes_null = _explicit(given[i])
        optional = parameter.default is not inspect.Parameter.empty
        parameters.append(Parameter(parameter.name, kind, takes_null, optional))
    variadic = bool(found) and found[-1].kind is inspect.Parameter.VAR_POSITIONAL
    return tuple(parameters), variadic


def parameter_of(parameter: inspect.Parameter, hints: Mapping[str, object]) -> Parameter:
    """A parameter by its hint."""
    check_place(parameter)
    kind, takes_null = _hinted(parameter.name, hints)
    optional = parameter.default is not inspect.Parameter.empty
    return Parameter(parameter.name, kind, takes_null, optional)


def check_place(parameter: inspect.Parameter) -> None:
    """BadSignature for a parameter that no place of a call stands for."""
    if parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise BadSignature(
            f"parameter '{parameter.name}' can only be given by name",
            "SQL gives arguments by place",
        )


def _hinted(name: str, hints: Mapping[str, object]) -> tuple[str, bool]:
    if name not in hints:
        raise BadSignature(
            f"parameter '{name}' has no type hint",
            f"write {name}: int, or give input_types=['BIGINT']",
        )
    try:
        return sql_type(hints[name])
    except BadSignature as error:
        raise BadSignature(f"parameter '{name}': {error.message}", error.hint) from None


def describe_aggregate(target: object, declared: Declaration) -> Spec:
    if not isinstance(target, type):
        raise BadSignature(
            "it is no class",
            "@udaf decorates a class with create_accumulator, accumulate and get_value",
        )
    for name in ("create_accumulator", "accumulate", "get_value"):
        if not callable(getattr(target, name, None)):
            raise BadSignature(
                f"the class has no method {name}",
                "an aggregate has create_accumulator, accumulate, get_value",
            )
    parameters, variadic = parameters_of(target.accumulate, declared.input_types, skip=2)  # type: ignore[attr-defined]
    result, gives_null = _result(target.get_value, declared.result_type, table=False)  # type: ignore[attr-defined]
    retracts, merges = (callable(getattr(target, n, None)) for n in ("retract", "merge"))
    return _spec(
        declared, parameters, result, gives_null, variadic, target.__doc__, retracts, merges
    )
