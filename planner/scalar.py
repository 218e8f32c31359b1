"""Typed scalar expressions in three frozen classes: `Literal`, `ColumnRef` and `Call`.

Whatever computes is a `Call` of a function that `udf` defines. AND and OR are n-ary, so that a
condition of a thousand operands is one node deep."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from parser.errors import Position
from parser.types import DataType, Root

# A literal's Python value: None, bool, int, float, str, bytes or decimal.Decimal; dates and times
# are integers in the unit of their Arrow type (days, ms, us, ns), intervals are months or
# milliseconds.
from udf.vector import LiteralValue

UTC = "UTC"

# The comparisons, and what each becomes when its sides change places.
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARISONS: Final = frozenset(MIRRORED)


@dataclass(frozen=True)
class Literal:
    """A constant. `value` None is a typed NULL."""

    value: LiteralValue
    type: DataType
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        return digest_of("literal", repr(self.value), str(self.type))

    def __str__(self) -> str:
        if self.value is None or isinstance(self.value, bool):
            return str(self.value).upper() if self.value is not None else "NULL"
        if isinstance(self.value, bytes):
            return f"X'{self.value.hex().upper()}'"
        return (
            "'" + self.value.replace("'", "''") + "'"
            if isinstance(self.value, str)
            else str(self.value)
        )


@dataclass(frozen=True)
class ColumnRef:
    """The value of the input's column `name` (names are distinct within a schema)."""

    name: str
    type: DataType
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        return digest_of("column", self.name, str(self.type))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """A function applied to arguments. `function` is the name of a definition in `udf` ('AND', '=',
    'LIKE', 'CAST', …); CAST and TRY_CAST take their target from `type`. `deterministic` is False if
    this call or one below may give another value for equal arguments: such expressions are never
    merged, folded or cached. `zone` is the session's time zone for calls that depend on it."""

    function: str
    args: tuple[Scalar, ...]
    type: DataType
    deterministic: bool = True
    position: Position | None = field(default=None, compare=False, repr=False)
    zone: str = UTC

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset[str]().union(*map(columns_of, self.args))

    @cached_property
    def size(self) -> int:
        """The number of nodes, with those that several read counted for each of them."""
        return 1 + sum(a.size if isinstance(a, Call) else 1 for a in self.args)

    @cached_property
    def digest(self) -> str:
        zone = () if self.zone == UTC else (self.zone,)
        return digest_of(
            "call", self.function, str(self.type), *(a.digest for a in self.args), *zone
        )

    def __str__(self) -> str:
        args = [str(a) for a in self.args]
        match self.function:
            case "AND" | "OR":
                return "(" + f" {self.function} ".join(args) + ")"
            case "CAST" | "TRY_CAST":
                return f"{self.function}({args[0]} AS {self.type.plain})"
            case "NOT":
                return f"NOT {args[0]}"
            case "IN":
                return f"({args[0]} IN ({', '.join(args[1:])}))"
            case "BETWEEN":
                return f"({args[0]} BETWEEN {args[1]} AND {args[2]})"
            case "LIKE" if len(args) == 3:
                return f"({args[0]} LIKE {args[1]} ESCAPE {args[2]})"
            case name if name.startswith("IS ") or (
                len(args) == 2 and (name == "LIKE" or not name[0].isalpha())
            ):
                return f"({' '.join([args[0], name, *args[1:]])})"
        return f"{self.function}({', '.join(args)})"


_WIDTHS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)

Scalar: TypeAlias = Literal | ColumnRef | Call


def digest_of(*parts: str) -> str:
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(4, "little"))
        h.update(data)
    return h.hexdigest()


def walk(expression: Scalar) -> Iterator[Scalar]:
    """Yields all nodes, parents first, without recursion."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.args))


def columns_of(expression: Scalar) -> frozenset[str]:
    """Names of the columns that the expression reads."""
    if isinstance(expression, Call):
        return expression.columns
    return frozenset((expression.name,)) if isinstance(expression, ColumnRef) else frozenset()


def conjuncts_of(condition: Scalar) -> Iterator[Scalar]:
    """The operands of a condition that is an AND, nested ones too; TRUE has none."""
    if isinstance(condition, Call) and condition.function == "AND":
        for argument in condition.args:
            yield from conjuncts_of(argument)
    elif not (isinstance(condition, Literal) and condition.value is True):
        yield condition


def same_values(expression: Scalar) -> str | None:
    """The column that the expression maps one to one: the column itself, also cast to a longer
    string or a wider integer; None for any other expression."""
    while isinstance(expression, Call) and expression.function in ("CAST", "CHECK NOT NULL"):
        inner, kind = expression.args[0], expression.type
        given = inner.type
        longer = given.is_string and kind.is_string and kind.length >= given.length
        wider = (
            given.is_integer
            and kind.is_integer
            and _WIDTHS.index(kind.root) >= _WIDTHS.index(given.root)
        )
        if not (given.same_as(kind) or longer or wider):
            return None
        expression = inner
    return expression.name if isinstance(expression, ColumnRef) else None


def is_deterministic(expression: Scalar) -> bool:
    return not isinstance(expression, Call) or expression.deterministic


# Functions whose value is that of the epoch: not deterministic, but alike for all jobs.
_EPOCH_FUNCTIONS: Final = frozenset(
    "PROCTIME CURRENT_TIMESTAMP CURRENT_ROW_TIMESTAMP NOW LOCALTIMESTAMP LOCALTIME CURRENT_TIME"
    " CURRENT_DATE UNIX_TIMESTAMP CURRENT_WATERMARK".split()
)


def is_deterministic_per_epoch(expression: Scalar) -> bool:
    """True if the value is the same for all jobs: nothing but the epoch makes it
    non-deterministic."""
    return is_deterministic(expression) or all(
        c.function in _EPOCH_FUNCTIONS for c in _nondeterministic(expression)
    )


def _nondeterministic(expression: Scalar) -> Iterator[Call]:
    """The calls that make the expression non-deterministic themselves, and not by an argument."""
    for node in walk(expression):
        if (
            isinstance(node, Call)
            and not node.deterministic
            and all(map(is_deterministic, node.args))
        ):
            yield node


def find_position(expression: Scalar) -> Position | None:
    """The first known position in the script of the expression or a part of it."""
    return next((n.position for n in walk(expression) if n.position is not None), None)
