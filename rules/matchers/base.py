"""The protocol of matchers: the values to match, and the list that collects their hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from rules.cache import Hits
from rules.logic import ERROR, TRUE
from rules.ragged import Ints, distinct


class Values:
    """Texts of one variable that were not seen before, none of them NULL."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def encoded(self) -> list[bytes]:
        """UTF-8; bytes that were none come back as they were."""
        return [encode(text) for text in self.texts]

    @cached_property
    def joined(self) -> tuple[bytes, Ints, Ints]:
        """All values in one text, separated by line breaks, and where each begins and ends."""
        encoded = self.encoded
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ends = np.cumsum(lengths + 1) - 1
        return b"\n".join(encoded), ends - lengths, ends

    @cached_property
    def ascii(self) -> bool:
        """True if there is nothing but ASCII in them."""
        return self.joined[0].isascii()

    @cached_property
    def line_ends(self) -> bool:
        """True if a \\n or \\r is in one of them."""
        data = self.joined[0]
        return b"\r" in data or data.count(b"\n") >= len(self.texts)


def encode(text: str) -> bytes:
    """UTF-8 of a text in which lone surrogates stand for bytes that were no UTF-8 (or for
    themselves, in literals)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class HitList:
    """Pairs of value and leaf, in any order.

    `base` is added to the number of each value: those of several variables go into one list. `size`
    counts the pairs."""

    def __init__(self) -> None:
        self.base = self.size = 0
        self._values: list[int] = []
        self._leaves: list[int] = []
        self._arrays: list[tuple[Ints, Ints]] = []
        self._errors: list[tuple[int, int]] = []

    def add(self, value: int, leaves: Iterable[int]) -> None:
        value += self.base
        for leaf in leaves:
            self._values.append(value)
            self._leaves.append(leaf)
            self.size += 1

    def add_pairs(self, values: Ints, leaves: Ints) -> None:
        if len(values):
            self._arrays.append((values + self.base, leaves))
            self.size += len(values)

    def add_error(self, value: int, leaf: int) -> None:
        """Records that the truth of `leaf` for `value` could not be determined."""
        self._errors.append((value + self.base, leaf))
        self.size += 1

    def finish(self) -> Hits:
        parts = self._arrays
        if self._values or not parts:
            parts = [*parts, (np.array(self._values, np.int64), np.array(self._leaves, np.int64))]
        keys = np.concatenate([(v.astype(np.int64) << 32) | leaves for v, leaves in parts])
        keys = distinct(keys)
        truths = np.full(len(keys), TRUE, np.int8)
        if self._errors:
            errors = np.array([(v << 32) | leaf for v, leaf in self._errors], np.int64)
            keys = np.concatenate([keys, errors])
            order = np.argsort(keys, kind="stable")
            truths = np.concatenate([truths, np.full(len(errors), ERROR, np.int8)])[order]
            keys = keys[order]
        return Hits(keys >> 32, keys & 0xFFFFFFFF, truths)


class Matcher(Protocol):
    """Finds the leaves of one family of operators that are TRUE for values. The same values give
    the same leaves."""

    def match(self, values: Values, hits: HitList) -> None: ...
