"""The table of all functions: what a definition is, how one is declared, found, bound and called.

Adding a function is one decorated def in a topic file of this package; nothing else has to be
registered:

    @function("CHAR_LENGTH", "CHARACTER_LENGTH", signature=takes(text, result=INT))
    def char_length(ctx: KernelContext, value: Values) -> Values:
        '''Number of characters (not bytes).'''
        return pc.utf8_length(value)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from inspect import cleandoc
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import PlanError
from parser.types import DataType
from udf.bounds import GROWING, Growth, fits, measured, within
from udf.guard import Run, guarded
from udf.vector import ColumnTooLarge, Errors, LiteralValue, Vector, merge_errors

Values: TypeAlias = pa.Array | pa.Scalar
Types: TypeAlias = Sequence[DataType]
# The value of each argument that is a literal; None for all others and for NULL.
Literals: TypeAlias = Sequence[LiteralValue | None]


@dataclass(frozen=True, slots=True)
class KernelContext:
    """The context of a kernel: all that it may depend on besides its arguments' values.

    `arg_types` are the types after implicit casts. `proctime_ms` is the epoch's processing time.
    `seed` is unique per epoch, node and batch: random functions derive their values from it and the
    row's number. `zone` is the session's time zone. `watermarks` gives the watermark before each
    row in ms, None where a value is computed without rows."""

    num_rows: int
    result_type: DataType
    arg_types: tuple[DataType, ...]
    proctime_ms: int = 0
    seed: int = 0
    zone: str = "UTC"
    watermarks: Callable[[], npt.NDArray[np.int64]] | None = None


Kernel: TypeAlias = Callable[[Sequence[Vector], KernelContext], Vector]


class Signature(Protocol):
    """Argument types and result type of a function.

    Both methods raise PlanError without naming the function."""

    def coerce(self, types: Types) -> tuple[DataType, ...]:
        """The type that each argument is cast to before the kernel sees it."""

    def resolve(self, types: Types, literals: Literals) -> DataType:
        """The type of the result, with nullability, from the types after `coerce`."""


class Total(Enum):
    """The arguments for which a function has a value, or NULL, in every row, and never an error.

    The planner may then compute it for rows that the statement does not ask it of."""

    NEVER = "not known to have one"
    ALWAYS = "for all arguments"
    WITH_CONSTANTS = "where the arguments behind the first are literals"
    OF_INTEGERS = "for integers, which wrap around"
    BY_CAST = "for a cast that loses nothing"


@dataclass(frozen=True)
class Traits:
    """Properties of a function that the planner relies on.

    `total`: where the function cannot fail. `strict`: it is NULL if an argument is NULL.
    `rejects_null`: it is never TRUE if an argument is NULL, as every strict function is."""

    total: Total = Total.NEVER
    strict: bool = False
    rejects_null: bool = False


@dataclass(frozen=True)
class Definition:
    """A function. `coerce` gives the argument types after implicit casts, `resolve` the result's
    type with nullability from the coerced types; both raise PlanError that names the function and
    the types of its arguments.

    `kernel` is called through `call` only. A `lazy` kernel sees arguments with errors and decides
    which of them count; for all others an error of any argument is an error of the row. An
    `external` kernel runs outside of this process: it is never called while a statement is planned.
    `topic` is the module that defines it, below `udf`: "text.strings". `growth`: how long its
    results are, where they may be much longer than its arguments."""

    name: str
    coerce: Callable[[Types], tuple[DataType, ...]]
    resolve: Callable[[Types, Literals], DataType]
    kernel: Kernel
    deterministic: bool
    doc: str
    lazy: bool
    external: bool = False
    topic: str = ""
    traits: Traits = Traits()
    growth: Growth | None = None


@dataclass(frozen=True)
class Bound:
    """A function with its argument types after implicit casts, and the result's type."""

    definition: Definition
    arg_types: tuple[DataType, ...]
    result_type: DataType


_DEFINITIONS: dict[str, Definition] = {}
# Functions of users, by an identity that no built-in name has.
_USERS: dict[str, Definition] = {}

PlainKernel: TypeAlias = Callable[..., Values | Vector]


def function(
    *names: str,
    signature: Signature,
    deterministic: bool = True,
    total: Total = Total.NEVER,
    strict: bool = False,
    rejects_null: bool = False,
    growth: Growth | None = None,
) -> Callable[[PlainKernel], PlainKernel]:
    """Declares a function under `names`; `total`, `strict` and `rejects_null` are its `Traits`,
    `growth` says how long results are that may be much longer than the arguments. The
    kernel is called with the context and the values of the arguments, of which one at least is an
    array of `num_rows` if there are any, and gives values or a Vector with errors."""
    traits = Traits(total, strict, strict or rejects_null)

    def register(kernel: PlainKernel) -> PlainKernel:
        def of_vectors(args: Sequence[Vector], ctx: KernelContext) -> Vector:
            result = kernel(ctx, *[a.values for a in args])
            return result if isinstance(result, Vector) else Vector(result)

        of_vectors.__doc__, of_vectors.__module__ = kernel.__doc__, kernel.__module__
        _register(names, signature, of_vectors, traits, growth, deterministic=deterministic)
        return kernel

    return register


def lazy_function(
    *names: str,
    signature: Signature,
    total: Total = Total.NEVER,
    rejects_null: bool = False,
) -> Callable[[Kernel], Kernel]:
    """Declares a function whose kernel gets vectors with their errors; `total` and `rejects_null`
    are its `Traits`."""
    traits = Traits(total, rejects_null=rejects_null)

    def register(kernel: Kernel) -> Kernel:
        _register(names, signature, kernel, traits, None, deterministic=True, lazy=True)
        return kernel

    return register


def _register(
    names: Sequence[str],
    signature: Signature,
    kernel: Kernel,
    traits: Traits,
    growth: Growth | None,
    *,
    deterministic: bool,
    lazy: bool = False,
) -> None:
    for name in names:
        if name in _DEFINITIONS:
            raise ValueError(f"function {name} is defined twice")

        def coerce(types: Types, name: str = name) -> tuple[DataType, ...]:
            try:
                return signature.coerce(types)
            except PlanError as error:
                raise _refusal(name, types, error) from None

        def resolve(types: Types, literals: Literals = (), name: str = name) -> DataType:
            try:
                return signature.resolve(types, literals or [None] * len(types))
            except PlanError as error:
                raise _refusal(name, types, error) from None

        doc, topic = cleandoc(kernel.__doc__ or ""), _topic_of(kernel)
        _DEFINITIONS[name] = Definition(
            name,
            coerce,
            resolve,
            kernel,
            deterministic,
            doc,
            lazy,
            topic=topic,
            traits=traits,
            growth=growth,
        )


def _topic_of(kernel: Kernel) -> str:
    """The place of the kernel's module below `udf`, in the checkout and in the wheel."""
    return kernel.__module__.rpartition("udf.")[2]


def _refusal(name: str, types: Types, error: PlanError) -> PlanError:
    given = ", ".join(str(t) for t in types)
    return type(error)(
        f"cannot apply '{name}' to arguments ({given})", detail=error.message, hint=error.hint
    )


def lookup(name: str) -> Definition | None:
    """The definition of a function or operator by its name in upper case, or of a user's function
    by its identity."""
    return _DEFINITIONS.get(name) or _USERS.get(name)


_NO_TRAITS = Traits()


def traits_of(name: str) -> Traits:
    """The traits of the function of that name, as `lookup` takes it; none if it is not known."""
    definition = lookup(name)
    return _NO_TRAITS if definition is None else definition.traits


def register_user(definition: Definition) -> None:
    """Makes a user's function callable by its identity, which stands for one content: the same
    again is the same."""
    _USERS[definition.name] = definition


def names() -> list[str]:
    """Returns all names, sorted."""
    return sorted(_DEFINITIONS)


def suggest(name: str, others: Sequence[str] = ()) -> str | None:
    """The known name, of a function or one of `others`, that is most like an unknown one."""
    near = get_close_matches(name.upper(), [*names(), *others], n=1, cutoff=0.7)
    return near[0] if near else None


def bind(name: str, types: Types, literals: Literals = ()) -> Bound:
    """Function `name` for arguments of these types, with the casts that they need. The caller wraps
    an argument in CAST where `arg_types[i]` differs from its own type in more than nullability. Not
    for CAST and TRY_CAST, whose target is part of the text."""
    definition = lookup(name.upper())
    if definition is None:
        near = suggest(name)
        raise PlanError(
            f"unknown function '{name}'", hint=f"did you mean {near}?" if near else None
        )
    arg_types = definition.coerce(types)
    return Bound(definition, arg_types, definition.resolve(arg_types, literals))


def call(definition: Definition, args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """The function's value for every row; never raises for data, but ColumnTooLarge where it is to
    be asked for fewer rows.

    Scalar arguments stand for all rows; of scalars only, the result is a scalar (for a
    deterministic function)."""
    if args and definition.deterministic and _all_scalars(args):
        return _call_constant(definition, args, ctx)
    result = _not_null(definition, _guarded(definition, args, ctx), ctx, args)
    if definition.lazy:
        return result
    for arg in args:
        if arg.errors is not None:
            return Vector(result.values, merge_errors([a.errors for a in args] + [result.errors]))
    return result


def _all_scalars(args: Sequence[Vector]) -> bool:
    for arg in args:  # noqa: SIM110  asked of every call, and half the time of all()
        if not isinstance(arg.values, pa.Scalar):
            return False
    return True


def _has_null(values: Values) -> bool:
    return not values.is_valid if isinstance(values, pa.Scalar) else values.null_count > 0


def _not_null(
    definition: Definition, result: Vector, ctx: KernelContext, args: Sequence[Vector]
) -> Vector:
    """NULL from arguments that are none, where the result's type has no NULL (a number that does
    not fit its DECIMAL): the rows have an error, as they fail in Flink at the latest where they are
    written."""
    if ctx.result_type.nullable or not _has_null(result.values):
        return result
    missing = np.asarray(result.array(ctx.num_rows).is_null().to_numpy(zero_copy_only=False))
    for arg in args:  # what came as NULL goes as NULL: then a type was wrong about the data
        missing &= arg.array(ctx.num_rows).is_valid().to_numpy(zero_copy_only=False)
    own = Errors.where(missing, f"no value of type {ctx.result_type} for {definition.name}")
    return Vector(result.values, merge_errors([result.errors, own]))


def _guarded(definition: Definition, args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """The kernel's vector within the bounds on lengths; rows for which it raises are in error."""
    growth = definition.growth
    if growth is None or fits(growth, args, ctx.num_rows):
        result = _contained(definition, args, ctx)
    else:
        result = within(definition.name, growth, _for_rows(definition, ctx), args, ctx.num_rows)
    if (growth is None or growth.escaped) and ctx.result_type.root in GROWING:
        return measured(definition.name, result, ctx.num_rows)
    return result


def _for_rows(definition: Definition, ctx: KernelContext) -> Run:
    def run(args: Sequence[Vector], rows: int) -> Vector:
        part = ctx if rows == ctx.num_rows else replace(ctx, num_rows=rows)
        return _contained(definition, args, part)

    return run


def _contained(definition: Definition, args: Sequence[Vector], ctx: KernelContext) -> Vector:
    try:
        return definition.kernel(args, ctx)
    except ColumnTooLarge:
        raise
    except Exception:  # noqa: BLE001  asked again in parts, which finds the rows at fault
        return _in_parts(definition, args, ctx)


def _in_parts(definition: Definition, args: Sequence[Vector], ctx: KernelContext) -> Vector:
    def run(part: Sequence[Vector], rows: int) -> Vector:
        return definition.kernel(part, ctx if rows == ctx.num_rows else replace(ctx, num_rows=rows))

    return guarded(definition.name, run, args, ctx.num_rows, pa.scalar(None, ctx.result_type.arrow))


def _call_constant(definition: Definition, args: Sequence[Vector], ctx: KernelContext) -> Vector:
    n = ctx.num_rows
    if definition.lazy and any(a.errors is not None for a in args):
        return _guarded(definition, [Vector(a.array(n), a.errors) for a in args], ctx)
    single = [Vector(a.array(1)) for a in args]
    one = replace(ctx, num_rows=1)
    result = _not_null(definition, _guarded(definition, single, one), one, single)
    errors = result.errors
    if errors is not None:
        errors = Errors.where(np.ones(n, np.bool_), errors.reason(0))
    values = result.values if isinstance(result.values, pa.Scalar) else result.values[0]
    return Vector(values, merge_errors([a.errors for a in args] + [errors]))
