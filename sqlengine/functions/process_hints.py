"""Process functions as SQL sees them: tables, scalars, rows. Runs in the worker."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable

from sqlengine.functions.hints import (
    BadSignature,
    Parameter,
    Process,
    Spec,
    TableParameter,
    describe_row,
    fields_of,
    parameter_of,
    sql_type,
)
from sqlengine.functions.process_sdk import TABLE, ProcessDeclaration
from sqlengine.functions.process_views import view_fields

_FORM = "write class F: def eval(self, ctx: ProcessContext, row: TableRow) -> Iterator[…]"


def describe_process(target: object, declared: ProcessDeclaration) -> Spec:
    """Describes a process function. BadSignature names what is wrong."""
    if not isinstance(target, type) or not callable(getattr(target, "eval", None)):
        raise BadSignature("it is no class with a method eval", _FORM)
    on_timer = getattr(target, "on_timer", None)
    tables, scalars = arguments_of(target)
    if not tables:
        raise BadSignature("eval has no parameter that is a table", _FORM)
    if declared.passes_columns and (len(tables) > 1 or on_timer is not None):
        raise BadSignature(
            "pass_columns goes with one table, and without timers",
            "yield the columns that are needed",
        )
    result = declared.result_type or _rows_of(target)
    process = Process(
        tables,
        _state_of(target),
        _milliseconds(declared),
        callable(on_timer),
        declared.keyless,
        declared.passes_columns,
        callable(on_timer) or declared.timed,
        tuple(view.ttl_ms for view in view_fields(state_class(target))),
    )
    return Spec(
        "process", scalars, result, True, declared.deterministic, False, False, False, False,
        inspect.cleandoc(target.__doc__ or ""), process,
    )  # fmt: skip


def takes_context(target: type) -> bool:
    """True if the first parameter of `eval` is the context: the one that is called `ctx`."""
    return "ctx" in list(inspect.signature(eval_of(target)).parameters)[1:2]


def eval_of(target: type) -> Callable[..., object]:
    found: Callable[..., object] = getattr(target, "eval")  # noqa: B009  its class has no name
    return found


def hints_of_eval(target: type) -> dict[str, object]:
    """The hints of `eval`, which may name classes in the class."""
    try:
        return typing.get_type_hints(eval_of(target), None, {**vars(target)}, include_extras=True)
    except NameError as error:
        raise BadSignature(
            f"a type hint cannot be resolved: {error}", "import the name in the module"
        ) from None


def arguments_of(target: type) -> tuple[tuple[TableParameter, ...], tuple[Parameter, ...]]:
    """The parameters of `eval` that are tables, and the others, which come behind them."""
    skip = 2 if takes_context(target) else 1
    hints = hints_of_eval(target)
    tables: list[TableParameter] = []
    scalars: list[Parameter] = []
    for parameter in list(inspect.signature(eval_of(target)).parameters.values())[skip:]:
        hint = hints.get(parameter.name)
        if not is_table(hint):
            scalars.append(parameter_of(parameter, hints))
        elif scalars:
            raise BadSignature(
                f"the table '{parameter.name}' stands behind '{scalars[-1].name}'",
                "tables come before all other parameters",
            )
        else:
            tables.append(TableParameter(parameter.name, _columns(parameter.name, hint)))
    return tuple(tables), tuple(scalars)


def is_table(hint: object) -> bool:
    return typing.get_origin(hint) is typing.Annotated and TABLE in typing.get_args(hint)


def row_hint(hint: object) -> object:
    """The R of `TableRow[R]`; None for a table that may have any columns."""
    of = typing.get_args(hint)[0]
    return None if isinstance(of, typing.TypeVar) or of is typing.Any else of


def _columns(name: str, hint: object) -> tuple[tuple[str, str], ...] | None:
    of = row_hint(hint)
    if of is None:
        return None
    fields = fields_of(of)
    if not fields:
        raise BadSignature(
            f"the rows of table '{name}' are no dataclass and no NamedTuple",
            f"write {name}: TableRow, or TableRow[…] of a dataclass with the columns",
        )
    return tuple((column, sql_type(kind)[0]) for column, kind in fields)


def _rows_of(target: type) -> str:
    args = typing.get_args(hints_of_eval(target).get("return"))
    if not args:
        raise BadSignature(
            "eval does not say which rows it gives",
            "write -> Iterator[tuple[str, int]], or give output='ROW<…>'",
        )
    return describe_row(args[0])


def state_class(target: type) -> type | None:
    found = getattr(target, "State", None)
    return found if isinstance(found, type) else None


def _state_of(target: type) -> str:
    """The form of what is remembered: equal for equal fields."""
    state = state_class(target)
    if state is None:
        return ""
    if not dataclasses.is_dataclass(state):
        raise BadSignature("State is no dataclass", "write @dataclass class State: …")
    try:
        state()
    except TypeError as error:
        raise BadSignature(
            f"State cannot be made: {error}", "give each field a default: n: int = 0"
        ) from None
    views = {view.name: view.type for view in view_fields(state)}
    shown = (f"{n} {views.get(n) or _shown(h)}" for n, h in fields_of(state))
    return f"ROW<{', '.join(shown)}>"


def _shown(hint: object) -> str:
    try:
        return sql_type(hint)[0]
    except BadSignature:  # plain data without a type in SQL, such as a set
        return str(hint)


def _milliseconds(declared: ProcessDeclaration) -> int:
    if declared.ttl is None:
        return 0
    ms = int(declared.ttl.total_seconds() * 1000)
    if ms <= 0:
        raise BadSignature("ttl is not positive", "leave it out for state that is kept for ever")
    return ms
