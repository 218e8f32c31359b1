"""A heap of what is known by where it began. Of several that began at one row the place in the heap
decides which is looked at first; it is that of Java's PriorityQueue, since results depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

# What has not begun comes behind all that has.
NOT_BEGUN: Final = 2**62

# A match, or a part of one: the number of its first row, its state, how many rows each item has
# taken, the time of the first row in ms. Rows follow each other, so that the counts tell which row
# is whose.
Part: TypeAlias = tuple[int, int, tuple[int, ...], int]
Heap: TypeAlias = list[Part]


def push(heap: Heap, part: Part) -> None:
    start = part[0]
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


def discard(heap: Heap, gone: Callable[[Part], bool]) -> None:
    """Removes those that are `gone`."""
    left = [part for part in heap if not gone(part)]
    if len(left) == len(heap):
        return
    heap[:] = left
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
