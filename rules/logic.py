"""Three-valued logic with errors as numbers, so that AND is the minimum and everything else a
table.

FALSE < ERROR < UNKNOWN < TRUE: FALSE AND error is FALSE, as SQL's laziness has it, and TRUE OR
error is TRUE. OR is the minimum of the negated operands, negated. NOT and IS [NOT] TRUE | FALSE |
UNKNOWN are functions of one value; an error stays an error. There are 27 such functions, each named
by its number, and chains of them are one of them."""

from __future__ import annotations

from itertools import product

import numpy as np

FALSE, ERROR, UNKNOWN, TRUE = 0, 1, 2, 3

_VALUES = (FALSE, UNKNOWN, TRUE)
_OUTPUTS = list(product(_VALUES, repeat=3))
_NUMBER = {outputs: number for number, outputs in enumerate(_OUTPUTS)}

# TABLE[function][value]; FLAT_TABLE is the same with the index 4 * function + value.
TABLE = [(f, ERROR, u, t) for f, u, t in _OUTPUTS]
FLAT_TABLE = np.array(TABLE, np.int8).ravel()
COMPOSE = [[_NUMBER[tuple(outer[inner[v]] for v in _VALUES)] for inner in TABLE] for outer in TABLE]

IDENTITY = _NUMBER[FALSE, UNKNOWN, TRUE]
NEGATION = _NUMBER[TRUE, UNKNOWN, FALSE]
# FALSE becomes UNKNOWN: a list with a NULL in it that does not hold the value.
FALSE_TO_UNKNOWN = _NUMBER[UNKNOWN, UNKNOWN, TRUE]
ALWAYS = {value: _NUMBER[value, value, value] for value in _VALUES}
TESTS = {
    ("TRUE", False): _NUMBER[FALSE, FALSE, TRUE],
    ("TRUE", True): _NUMBER[TRUE, TRUE, FALSE],
    ("FALSE", False): _NUMBER[TRUE, FALSE, FALSE],
    ("FALSE", True): _NUMBER[FALSE, TRUE, TRUE],
    ("UNKNOWN", False): _NUMBER[FALSE, TRUE, FALSE],
    ("UNKNOWN", True): _NUMBER[TRUE, FALSE, TRUE],
}


def sources(function: int, value: int) -> frozenset[int]:
    """The values among FALSE, UNKNOWN, TRUE that `function` maps to `value`."""
    return _SOURCES[function][value]


_SOURCES = [
    [
        frozenset(v for v in _VALUES if outputs[v] == value)
        for value in (FALSE, ERROR, UNKNOWN, TRUE)
    ]
    for outputs in TABLE
]
