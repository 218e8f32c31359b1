"""Users' own functions as plans know them: what one takes and gives, and by what identity. Nothing
here runs any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from parser.errors import PlanError
from parser.grammar.datatypes import parse_type
from parser.types import DataType, Root, TimeAttribute
from udf.casts.coercion import can_assign
from udf.registry import Definition, Kernel, Literals, Types


class Kind(StrEnum):
    SCALAR = "scalar"
    TABLE = "table"
    AGGREGATE = "aggregate"
    PROCESS = "process"
    SINK = "sink"


@dataclass(frozen=True)
class Parameter:
    """`type` in SQL's words. A row in which a parameter that takes no NULL has one is not shown to
    the function."""

    name: str
    type: str
    takes_null: bool = False
    optional: bool = False


@dataclass(frozen=True)
class TableParameter:
    """A parameter that stands for a table, whose rows are given one after the other. `columns` are
    those that it asks for, with their types in SQL's words; None: those that the table has."""

    name: str
    columns: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class ProcessTraits:
    """The traits of a process function.

    `tables` come before its other parameters. `state`: the type of what it remembers for each key,
    '' where that is nothing, and `ttl_ms` how long without a change, 0 for ever. `timers`: it may
    ask to be called later. `keyless`: a table needs no PARTITION BY. `passes_columns`: a row goes
    on with all its columns, not with the keys alone. `timed`: a call must say `on_time`.
    `views`: of each view of the state how long an entry stays that was not written (ms), 0 for
    ever, None as all other state."""

    tables: tuple[TableParameter, ...]
    state: str = ""
    ttl_ms: int = 0
    timers: bool = False
    keyless: bool = False
    passes_columns: bool = False
    timed: bool = False
    views: tuple[int | None, ...] = ()

    @property
    def remembers(self) -> bool:
        """True if what comes of a row depends on others of its key."""
        return bool(self.state) or self.timers


@dataclass(frozen=True)
class UserFunction:
    """A user's function: `place` is 'module.name', `content` the hash of all its source files.
    `result` is the type of a scalar's or aggregate's value, and for a table function a ROW of its
    columns; `gives_null`: it may be NULL though no argument is. `variadic`: the last parameter may
    be repeated, or be missing."""

    place: str
    content: str
    kind: Kind
    parameters: tuple[Parameter, ...]
    result: str
    gives_null: bool = False
    deterministic: bool = True
    vectorized: bool = False
    variadic: bool = False
    retracts: bool = False
    merges: bool = False
    doc: str = ""
    process: ProcessTraits | None = None
    asynchronous: bool = False

    @property
    def identity(self) -> str:
        """The name by which plans call it: equal for equal content under any SQL name, and for
        nothing else."""
        return f"{self.place}@{self.content[:16]}"

    @property
    def result_type(self) -> DataType:
        return type_named(self.result)

    @property
    def parameter_types(self) -> tuple[DataType, ...]:
        return tuple(type_named(p.type) for p in self.parameters)

    @property
    def signature(self) -> str:
        """Returns the signature for people: `name(a BIGINT, b STRING) -> DOUBLE`."""
        shown = [f"{p.name} {p.type}{' NULL' if p.takes_null else ''}" for p in self.parameters]
        shown = [f"[{s}]" if p.optional else s for s, p in zip(shown, self.parameters, strict=True)]
        if self.variadic:
            shown[-1] += " …"
        if self.process is not None:
            shown = [f"{t.name} TABLE" for t in self.process.tables] + shown
        return f"{self.place.rpartition('.')[2]}({', '.join(shown)}) -> {self.result}"


def takes_changes(function: UserFunction) -> bool:
    """True if a sink is given the kind of each row: by its first parameter `op`."""
    return bool(function.parameters) and function.parameters[0].name == "op"


def is_user(name: str) -> bool:
    """True if a name in a plan is the identity of a user's function."""
    return "@" in name


@lru_cache(maxsize=4096)
def type_named(text: str) -> DataType:
    return parse_type(text)


def parameters_for(function: UserFunction, count: int) -> tuple[Parameter, ...]:
    """The parameter of each of `count` arguments. PlanError where there are too few or too many."""
    most = len(function.parameters)
    least = most - sum(p.optional for p in function.parameters) - function.variadic
    if count < least or (count > most and not function.variadic):
        expected = (
            f"at least {least}"
            if function.variadic
            else str(most)
            if least == most
            else f"{least} to {most}"
        )
        raise PlanError(
            f"{expected} argument{'' if expected == '1' else 's'} expected, but {count} given"
        )
    return function.parameters[:count] + function.parameters[-1:] * (count - most)


def coerce(function: UserFunction, types: Types) -> tuple[DataType, ...]:
    """Returns the types that the arguments are cast to.

    PlanError that names the parameter whose type does not fit."""
    return tuple(
        _coerced(t, p) for t, p in zip(types, parameters_for(function, len(types)), strict=True)
    )


def _coerced(given: DataType, parameter: Parameter) -> DataType:
    wanted = type_named(parameter.type)
    if given.root is Root.NULL or can_assign(given, wanted):
        return wanted.with_nullable(given.nullable)
    raise PlanError(
        f"parameter '{parameter.name}' is {wanted.plain}, but"
        f" {given.as_attribute(TimeAttribute.NONE)} given",
        hint=f"write CAST(… AS {wanted.plain})",
    )


def result_of(function: UserFunction, types: Types) -> DataType:
    """The type of the value: NULL where the function says so, or where a NULL argument keeps the
    row from it."""
    parameters = parameters_for(function, len(types))
    skipped = any(t.nullable and not p.takes_null for t, p in zip(types, parameters, strict=True))
    return function.result_type.with_nullable(
        function.gives_null or skipped or function.kind is Kind.AGGREGATE
    )


def bind_user(
    function: UserFunction, name: str, types: Types
) -> tuple[tuple[DataType, ...], DataType]:
    """The casts of the arguments and the type of the result. PlanError that names the function as
    the text does."""
    try:
        arguments = coerce(function, types)
        return arguments, result_of(function, arguments)
    except PlanError as error:
        given = ", ".join(str(t) for t in types)
        hint = error.hint or f"it is {function.signature}"
        raise PlanError(
            f"cannot apply '{name}' to arguments ({given})", detail=error.message, hint=hint
        ) from None


def definition_of(function: UserFunction, kernel: Kernel) -> Definition:
    """The function as the registry holds it: `kernel` runs it elsewhere."""

    def resolve(types: Types, literals: Literals = ()) -> DataType:
        return result_of(function, types)

    return Definition(
        name=function.identity,
        coerce=lambda types: coerce(function, types),
        resolve=resolve,
        kernel=kernel,
        deterministic=function.deterministic,
        doc=function.doc,
        lazy=False,
        external=True,
    )


def columns_of(function: UserFunction) -> Sequence[tuple[str, DataType]]:
    """The columns that a table function gives."""
    row = function.result_type
    return tuple(zip(row.names, row.children, strict=True))
