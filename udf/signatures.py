"""Forms of signatures: families of argument types, and rules for the result's type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from parser.errors import PlanError
from parser.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INT, STRING, DataType, Root
from udf.registry import Literals, Types

ResultRule: TypeAlias = Callable[[Types, Literals], DataType]


@dataclass(frozen=True)
class Family:
    """A set of types that a parameter takes; `target` is what they are cast to (None: they stay as
    they are), `null` what an untyped NULL is (None: it is refused)."""

    name: str
    accepts: Callable[[DataType], bool]
    target: DataType | None = None
    null: DataType | None = None

    def cast(self, t: DataType) -> DataType:
        if t.root is Root.NULL and self.null is not None:
            return self.null
        if not self.accepts(t):
            raise PlanError(f"{self.name} expected, but {t} given", hint=_hint(t))
        return t if self.target is None else self.target.with_nullable(t.nullable)


def _hint(t: DataType) -> str | None:
    return "give NULL a type: CAST(NULL AS ...)" if t.root is Root.NULL else None


text = Family("a string", lambda t: t.is_string)
number = Family("a number", lambda t: t.is_numeric)
integer = Family("an integer", lambda t: t.is_integer)
int_ = Family("an INT", lambda t: t.is_integer and t.root is not Root.BIGINT, INT)
bigint = Family("an integer", lambda t: t.is_integer, BIGINT)
double = Family("a number", lambda t: t.is_numeric, DOUBLE)
boolean = Family("a BOOLEAN", lambda t: t.root is Root.BOOLEAN)
binary = Family("binary data", lambda t: t.is_binary)
text_or_binary = Family("a string or binary data", lambda t: t.is_string or t.is_binary)
anything = Family("a value", lambda t: True)

# Flink's newer functions take an untyped NULL, too.
text_or_null = replace(text, null=STRING)
int_or_null = Family("an INT", lambda t: t.is_integer, INT, INT)
bigint_or_null = replace(bigint, null=BIGINT)
integer_or_null = replace(integer, null=INT)
boolean_or_null = replace(boolean, null=BOOLEAN)
binary_or_null = replace(binary, null=BYTES)


@dataclass(frozen=True)
class Positional:
    """Parameters by position: the last `optional` of them may be missing, the last one may be
    repeated if `variadic`."""

    parameters: tuple[Family, ...]
    result: ResultRule
    optional: int = 0
    variadic: bool = False

    def coerce(self, types: Types) -> tuple[DataType, ...]:
        most = len(self.parameters)
        least = most - self.optional
        if len(types) < least or (len(types) > most and not self.variadic):
            raise PlanError(
                f"{_count(least, most, self.variadic)} expected, but {len(types)} given"
            )
        last = self.parameters[-1:]
        families = self.parameters + last * (len(types) - most)
        return tuple(f.cast(t) for f, t in zip(families, types, strict=False))

    def resolve(self, types: Types, literals: Literals) -> DataType:
        return self.result(types, literals)


def _count(least: int, most: int, variadic: bool) -> str:
    many = f"at least {least}" if variadic else str(most) if least == most else f"{least} to {most}"
    return f"{many} argument{'' if many == '1' else 's'}"


@dataclass(frozen=True)
class Custom:
    """Argument and result types by two functions of the argument types."""

    casts: Callable[[Types], tuple[DataType, ...] | None]
    result: ResultRule
    expected: str

    def coerce(self, types: Types) -> tuple[DataType, ...]:
        casts = self.casts(types)
        if casts is None:
            raise PlanError(f"{self.expected} expected")
        return casts

    def resolve(self, types: Types, literals: Literals) -> DataType:
        return self.result(types, literals)


def nullable(types: Types) -> bool:
    return any(t.nullable for t in types)


def gives(result: DataType) -> ResultRule:
    """`result`, NULL if an argument is."""
    return lambda types, literals: result.with_nullable(nullable(types))


def always_nullable(result: DataType) -> ResultRule:
    return lambda types, literals: result.with_nullable(True)


def never_null(result: DataType) -> ResultRule:
    return lambda types, literals: result.with_nullable(False)


def same_as_first(types: Types, literals: Literals) -> DataType:
    return types[0].plain.with_nullable(nullable(types))


def varying_as_first(types: Types, literals: Literals) -> DataType:
    """The first argument's length, but VARCHAR for CHAR."""
    return DataType(Root.VARCHAR, length=types[0].length, nullable=nullable(types))


def takes(
    *parameters: Family, result: DataType | ResultRule, optional: int = 0, variadic: bool = False
) -> Positional:
    """Arguments by position; a plain result type is NULL if an argument is."""
    rule = gives(result) if isinstance(result, DataType) else result
    return Positional(tuple(parameters), rule, optional, variadic)


def all_to(common: Callable[[Sequence[DataType]], DataType | None], result: ResultRule) -> Custom:
    """Returns a signature whose arguments are all cast to their common type."""

    def casts(types: Types) -> tuple[DataType, ...] | None:
        target = common(types) if types else None
        if target is None or target.root is Root.NULL:
            return None
        return tuple(target.with_nullable(t.nullable) for t in types)

    return Custom(casts, result, "arguments of one common type")


PREDICATE = gives(BOOLEAN)
FACT = never_null(BOOLEAN)
