"""A heap of partial matches, ordered by their first row.

Results depend on which of several matches with the same first row comes first: the sift operations
are those of Java's PriorityQueue, which Flink uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

# The first row of a match that has not begun: it sorts after all others.
NOT_BEGUN: Final = 2**62

# A partial or complete match (Flink: ComputationState): the number of its first row, its state, the
# number of rows that each item has taken, the time (ms) of the first row. The rows of a match are
# consecutive, so that the counts determine which item took which row.
Part: TypeAlias = tuple[int, int, tuple[int, ...], int]
Heap: TypeAlias = list[Part]


def push(heap: Heap, part: Part) -> None:
    start = part[0]
    # The place of the new part moves up; the parts above it move down into the gap.
    at = len(heap)
    heap.append(part)
    while at:
        above = (at - 1) >> 1
        other = heap[above]
        if start >= other[0]:
            break
        heap[at] = other
        at = above
    heap[at] = part


def pop(heap: Heap) -> Part:
    first = heap[0]
    last = heap.pop()
    if heap:
        _sink(heap, 0, last)
    return first


def discard(heap: Heap, is_discarded: Callable[[Part], bool]) -> None:
    """Removes the parts for which `is_discarded` is True."""
    remaining = [part for part in heap if not is_discarded(part)]
    if len(remaining) == len(heap):
        return
    heap[:] = remaining
    # PriorityQueue.removeIf filters the array in place, and then heapifies it.
    for at in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, at, heap[at])


def _sink(heap: Heap, at: int, part: Part) -> None:
    size, start = len(heap), part[0]
    while at < size >> 1:
        below = 2 * at + 1
        if below + 1 < size and heap[below][0] > heap[below + 1][0]:
            below += 1
        other = heap[below]
        if start <= other[0]:
            break
        heap[at] = other
        at = below
    heap[at] = part
