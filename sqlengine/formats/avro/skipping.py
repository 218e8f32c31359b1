"""Values of Avro that nobody reads, and the elements of arrays and maps, one of each record after
the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from sqlengine.formats.avro.cursor import Cursor, IntArray
from sqlengine.formats.avro.schemas import AvroType

# A record with more elements is read by itself: each costs a step for all of the batch.
_MOST_STEPS: Final = 1000
# So are those that have elements left after so many steps of all arrays, within each other, too.
_MOST_STEPS_TOGETHER: Final = 8000


def skip(kind: AvroType, cursor: Cursor, lanes: IntArray) -> None:
    """Leaves a value of each record out."""
    match kind.kind:
        case "null":
            return
        case "boolean" | "float" | "double" | "fixed":
            cursor.skip(lanes, kind.size or kind.least)
        case "int" | "long" | "enum":
            cursor.numbers(lanes)
        case "bytes" | "string":
            cursor.skip(lanes, cursor.lengths(lanes))
        case "union":
            _skip_union(kind, cursor, lanes)
        case "record" | "error":
            for inner in kind.inner:
                skip(inner, cursor, lanes)
        case "array" | "map":
            for active in steps(cursor, lanes):
                if kind.kind == "map":
                    cursor.skip(lanes[active], cursor.lengths(lanes[active]))
                skip(kind.inner[0], cursor, lanes[active])


def _skip_union(kind: AvroType, cursor: Cursor, lanes: IntArray) -> None:
    branches = cursor.numbers(lanes)
    for i, branch in enumerate(kind.inner):
        if (branches == i).any():
            skip(branch, cursor, lanes[branches == i])
    wrong = (branches < 0) | (branches >= len(kind.inner))
    if wrong.any():
        cursor.fail(lanes[wrong], "a union has no such branch")


def steps(cursor: Cursor, lanes: IntArray) -> Iterator[IntArray]:
    """Yields the places in `lanes` of the records that have one element more, as long as there are
    any. The elements of each stand in blocks, each behind the number of those in it."""
    left = np.zeros(len(lanes), np.int64)
    ended = np.arange(len(lanes))
    steps = 0
    while True:
        if len(ended):
            left[ended] = _block(cursor, lanes[ended])
        active = np.flatnonzero(left)
        if not len(active):
            return
        if steps == _MOST_STEPS or cursor.steps >= _MOST_STEPS_TOGETHER:
            cursor.give_up(lanes[active])
            return
        yield active
        steps += 1
        cursor.steps += 1
        left[active] -= 1
        short = active[cursor.left(lanes[active]) == 0]
        if len(short):
            cursor.fail(lanes[short], "it ends too early")
            left[short] = 0
        ended = active[left[active] == 0]
        ended = ended[cursor.left(lanes[ended]) > 0]


def _block(cursor: Cursor, lanes: IntArray) -> IntArray:
    """Reads how many elements come next."""
    counts = cursor.numbers(lanes)
    sized = counts < 0
    if sized.any():
        cursor.numbers(lanes[sized])  # the bytes that they take
        counts = np.abs(counts)
    wrong = (counts < 0) | (counts > cursor.left(lanes))
    if wrong.any():
        cursor.fail(lanes[wrong], "a block has more elements than bytes")
        counts[wrong] = 0
    return counts
