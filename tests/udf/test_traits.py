"""What functions declare of themselves for the planner holds for their values."""

from __future__ import annotations

import pytest

from parser import parse
from planner import bind
from planner.catalog import Catalog
from planner.passes.constant_folding import folded
from planner.rewrite import nodes
from planner.scalar import Literal
from udf.registry import Total, names, traits_of

INT, TEXT = ("1", "CAST(NULL AS INT)"), ("'x'", "CAST(NULL AS STRING)")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")
# A call of each strict function, and for each argument a value and NULL.
STRICT: dict[str, tuple[str, list[tuple[str, str]]]] = {
    **{name: (f"{{}} {name} {{}}", [INT, INT]) for name in OPERATORS},
    "MOD": ("MOD({}, {})", [INT, INT]),
    "LIKE": ("{} LIKE {}", [TEXT, TEXT]),
    "NOT": ("NOT {}", [("TRUE", "CAST(NULL AS BOOLEAN)")]),
    "NEG": ("-{}", [INT]),
    "CAST": ("CAST({} AS STRING)", [INT]),
    "LOWER": ("LOWER({})", [TEXT]),
    "UPPER": ("UPPER({})", [TEXT]),
}


def value_of(text: str) -> Literal:
    (query,) = parse(f"SELECT {text};")
    sinks = bind(query, Catalog(), {})
    assert isinstance(sinks, tuple)
    (item,) = (e for plan in nodes(sinks[0]) for e in plan.expressions if str(e) != "0")
    value = folded(item)
    assert isinstance(value, Literal)
    return value


def test_every_strict_function_has_an_example() -> None:
    assert {n for n in names() if traits_of(n).strict} == STRICT.keys()


@pytest.mark.parametrize("name", STRICT)
def test_strict_functions_are_null_where_an_argument_is(name: str) -> None:
    call, arguments = STRICT[name]
    assert value_of(call.format(*(given for given, _ in arguments))).value is not None
    for place, (_, null) in enumerate(arguments):
        given = [null if i == place else value for i, (value, _) in enumerate(arguments)]
        assert value_of(call.format(*given)).value is None


def test_what_is_strict_rejects_null() -> None:
    assert all(traits_of(n).rejects_null for n in names() if traits_of(n).strict)


def test_an_unknown_function_declares_nothing() -> None:
    assert traits_of("no such function").total is Total.NEVER
