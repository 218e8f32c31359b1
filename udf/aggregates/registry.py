"""The registry of aggregate functions: built-in ones by name, users' by identity.

Each file of this folder registers its aggregates with `define` when it is imported; `udf` imports
them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from parser.errors import PlanError
from parser.types import DataType
from udf.aggregates.accumulators import Aggregate
from udf.aggregates.buffered import Buffered
from udf.aggregates.distinct import Distinct

# The aggregate for arguments of these types; where the flag says so, one that takes rows back.
Factory: TypeAlias = Callable[[Sequence[DataType], bool], Aggregate]


_AGGREGATES: dict[str, Factory] = {}
# The documentation of each built-in aggregate, by its names.
_DOCS: dict[tuple[str, ...], str] = {}


def define(*names: str, factory: Factory, doc: str = "") -> None:
    """Adds a built-in aggregate; `doc` begins with its usage and a colon, and is empty for a
    variant of another."""
    for name in names:
        if name in _AGGREGATES:
            raise ValueError(f"aggregate {name} is defined twice")
        _AGGREGATES[name] = factory
    if doc:
        _DOCS[tuple(n for n in names if " " not in n)] = doc


def documented() -> dict[tuple[str, ...], str]:
    """The built-in aggregates' docs by their names."""
    return dict(_DOCS)


# Their results are typed by what they take, also where they are over no rows.
_KEEPERS = frozenset({"COLLECT", "ARRAY_AGG", "LISTAGG"})

# Behind the name of a DISTINCT one: as `udf.aggregates.buffered` has it.
BUFFERED = " BUFFERED"

# Aggregates of users, by an identity that no built-in name has.
_USERS: dict[str, Factory] = {}


def register_aggregate(name: str, factory: Factory) -> None:
    """Makes a user's aggregate known by its identity, which stands for one content."""
    _USERS[name] = factory


def aggregate_names() -> list[str]:
    return sorted(_AGGREGATES)


def is_aggregate(name: str) -> bool:
    return name in _AGGREGATES


def refusal(name: str, types: Sequence[DataType], detail: str) -> PlanError:
    """The error for arguments that an aggregate does not take."""
    return PlanError(
        f"cannot apply '{name}' to arguments ({', '.join(map(str, types))})", detail=detail
    )


def bind_aggregate(
    name: str, types: Sequence[DataType], *, grouped: bool = False, retract: bool = False
) -> Aggregate:
    """The aggregate `name` (upper case) for arguments of these types; no argument is COUNT(*); 'SUM
    DISTINCT' is SUM of distinct values, 'LISTAGG DISTINCT BUFFERED' of those in the order of
    Flink's windows. PlanError for types that it does not take, and for an aggregate of a user that
    cannot retract. Only with GROUP BY and without FILTER (`grouped`) is the result NOT NULL where
    the argument is: over no rows it is NULL. `retract`: one that takes rows back, for inputs that
    are updated. It keeps more than the one that does not, and what the two keep differs."""
    plain = name.removesuffix(BUFFERED)
    base = plain.removesuffix(" DISTINCT")
    nullable = [t if grouped or base in _KEEPERS else t.with_nullable(True) for t in types]
    bound = (_AGGREGATES.get(base) or _USERS[base])(nullable, retract)
    if retract and not bound.retractable:
        raise PlanError(
            f"'{base.partition('@')[0]}' cannot take rows back, but its input is updated",
            hint="give it a method retract, or rows that are only added",
        )
    if base == plain:
        return bound
    once = Distinct(bound, nullable[0])
    return once if plain == name else Buffered(once)
