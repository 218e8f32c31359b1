"""The cost of a row does not depend on the size of the state: rows of state accessed, with a state
and one twice as large."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from sqlengine.batch import from_pydict
from tests.operators.proof import SCHEMA, Row
from tests.operators.state_access import count_access
from tests.operators.test_proof_of_queries import OF_CHANGES, QUERIES, operators
from tests.operators.windows import Chain

SOME, MORE = 120, 20
# Of each row all behind it have another value, and are told: what it costs is what it tells.
_TELLS_ALL = {"over sorted", "over updated"}


def rows(first: int, count: int) -> list[Row]:
    """Half of one key, half of keys of their own; times rise slowly, so that what waits for them
    waits."""
    return [
        (n, "hot" if n % 2 else f"k{n}", (n * 7919) % 10_007, Decimal(n % 97))
        for n in range(first, first + count)
    ]


def push(chain: Chain, given: Sequence[Row]) -> None:
    """One row at a time."""
    for row in given:
        chain.push(from_pydict(SCHEMA, {n: [row[i]] for i, n in enumerate(SCHEMA.names)}))


def touched(name: str, size: int) -> float:
    """Rows of state per row of input, once `size` rows have come."""
    chain = operators(name).all()
    push(chain, rows(0, size))
    with count_access() as found:
        push(chain, rows(size, MORE))
    return found.rows / MORE


@pytest.mark.parametrize("name", sorted({*QUERIES, *OF_CHANGES} - _TELLS_ALL))
def test_accessed_rows_do_not_grow_with_the_state(name: str) -> None:
    small, large = touched(name, SOME), touched(name, 2 * SOME)
    assert 0 < large <= 1.2 * small + 1, f"{small:.1f} rows of state for a row, then {large:.1f}"
