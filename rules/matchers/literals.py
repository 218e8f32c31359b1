"""LIKE: each pattern is searched by its longest literal, all of them at once.

`%a%`, `a%` and `%a` are settled by where the literal ends, any other pattern is confirmed on the
value. There are two automata: one for many values joined, which reports every occurrence and is
faster where few are found, and one for single values, which reports most literals once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rules.columns import Mask
from rules.counters import Counters
from rules.databases import Scan, compile_joined, compile_single
from rules.like import LikePattern
from rules.matchers.base import HitList, Values, encode
from rules.options import Options
from rules.ragged import Ints, distinct

_ESCAPED = [bytes((b,)) if 48 <= b < 58 or 97 <= b < 123 else b"\\x%02x" % b for b in range(256)]
# Fewer literals than these are found faster one by one, and need not be compiled.
_FEW = 8
# From so many values on a joined scan pays, as long as no more than so many literals are found in
# each.
_LOW = (1 << 40) - 1
_MANY_VALUES, _FEW_FOUND, _RECENT = 8, 6.0, 256


@dataclass(frozen=True)
class Literal:
    """`text` occurs in each value that `leaf` is TRUE for: anywhere, at its start or at its end.
    `confirm` is what the value must match besides."""

    leaf: int
    text: str
    at_start: bool
    at_end: bool
    confirm: LikePattern | None

    @property
    def anchored(self) -> bool:
        return self.at_start or self.at_end

    def in_text(self, text: str) -> bool:
        """Plain search, without confirming."""
        if self.at_start:
            return text.startswith(self.text)
        return text.endswith(self.text) if self.at_end else self.text in text

    @property
    def expression(self) -> bytes:
        return b"".join(map(_ESCAPED.__getitem__, encode(self.text)))


def literal_of(leaf: int, pattern: LikePattern) -> Literal | None:
    """Returns the literal to search for; None for a pattern of wildcards only."""
    match pattern.simple():
        case (place, text):
            return Literal(leaf, text, place == "prefix", place == "suffix", None)
    longest = pattern.longest
    if not longest:
        return None
    return Literal(leaf, longest, False, False, pattern)


class PlainLiteralMatcher:
    """Tries each literal on each value."""

    def __init__(self, literals: Sequence[Literal], counters: Counters) -> None:
        self._literals = literals
        self._counters = counters

    def match(self, values: Values, hits: HitList) -> None:
        self._counters.plain_checks += len(values) * len(self._literals)
        for literal in self._literals:
            for value, text in enumerate(values.texts):
                if literal.in_text(text) and (
                    literal.confirm is None or literal.confirm.matches(text)
                ):
                    hits.add(value, (literal.leaf,))


class LiteralMatcher:
    """Finds all literals in one scan. `literals` that must be at a start or end come last."""

    def __init__(
        self, literals: Sequence[Literal], single: Scan, joined: Scan | None, counters: Counters
    ) -> None:
        self._single, self._joined, self._counters = single, joined, counters
        self._leaves = np.array([lit.leaf for lit in literals], np.int64)
        self._lengths = np.array([len(encode(lit.text)) for lit in literals], np.int64)
        self._at_start = np.array([lit.at_start for lit in literals], np.bool_)
        self._at_end = np.array([lit.at_end for lit in literals], np.bool_)
        self._anywhere = sum(1 for lit in literals if not lit.anchored)
        self._confirm = {
            i: lit.confirm for i, lit in enumerate(literals) if lit.confirm is not None
        }
        self._to_confirm = np.array([lit.confirm is not None for lit in literals], np.bool_)
        self._found_per_value = 0.0

    def match(self, values: Values, hits: HitList) -> None:
        many = len(values) >= _MANY_VALUES and self._found_per_value <= _FEW_FOUND
        matches = (
            self._scan_joined(self._joined, values)
            if self._joined and many
            else self._scan_each(values)
        )
        which, literals = matches
        weight = min(1.0, len(values) / _RECENT)
        self._found_per_value += weight * (len(which) / max(1, len(values)) - self._found_per_value)
        unsure = self._to_confirm[literals]
        if unsure.any():
            kept = ~unsure
            kept[unsure] = self._confirmed(values, which[unsure], literals[unsure])
            which, literals = which[kept], literals[kept]
        hits.add_pairs(which, self._leaves[literals])

    def _scan_each(self, values: Values) -> tuple[Ints, Ints]:
        """(value, literal) for literals in the right place. Only of anchored ones the place is
        noted."""
        matches: list[int] = []
        ends: list[int] = []
        counts: list[int] = []
        note, note_end, anywhere = matches.append, ends.append, self._anywhere

        def on_match(literal: int, _: int, end: int, flags: int, context: object) -> None:
            note(literal)
            if literal >= anywhere:
                note_end(end)

        scan = self._single
        for data in values.encoded:
            scan(data, on_match)
            counts.append(len(matches))
        self._counters.hyperscan_scans += len(values)
        totals = np.array([0, *counts], np.int64)
        which = np.arange(len(values)).repeat(totals[1:] - totals[:-1])
        literals = np.array(matches, np.int64)
        right = np.ones(len(literals), np.bool_)
        anchored = np.flatnonzero(literals >= anywhere)
        if len(anchored):
            starts = np.zeros(len(anchored), np.int64)
            lengths = np.fromiter(map(len, values.encoded), np.int64, len(values))[which[anchored]]
            right[anchored] = self._placed(
                literals[anchored], np.array(ends, np.int64), starts, lengths
            )
        return which[right], literals[right]

    def _scan_joined(self, scan: Scan, values: Values) -> tuple[Ints, Ints]:
        """Scans all values in one text.

        Drops repeated hits and such that reach over the end of a value."""
        matches: list[int] = []
        append = matches.append

        def on_match(literal: int, _: int, end: int, flags: int, context: object) -> None:
            append(literal << 40 | end)

        data, starts, ends = values.joined
        scan(data, on_match)
        self._counters.hyperscan_scans += 1
        self._counters.joined_scans += 1
        pairs = np.array(matches, np.int64)
        literals, end = pairs >> 40, pairs & _LOW
        # The value in which the hit starts; a hit that crosses a line break ends in the next one.
        which = np.searchsorted(starts, end - self._lengths[literals], "right") - 1
        right = self._placed(literals, end, starts[which], ends[which])
        keys = distinct((which[right] << 40) | literals[right])
        return keys >> 40, keys & _LOW

    def _placed(self, literals: Ints, end: Ints, value_start: Ints, value_end: Ints) -> Mask:
        """Returns a mask of the literals that lie within their value, and at its start or end if
        they must."""
        start = end - self._lengths[literals]
        right = (start >= value_start) & (end <= value_end)
        right &= ~self._at_start[literals] | (start == value_start)
        right &= ~self._at_end[literals] | (end == value_end)
        return right

    def _confirmed(self, values: Values, which: Ints, literals: Ints) -> list[bool]:
        texts = values.texts
        checked = [
            self._confirm[literal].matches(texts[value])
            for value, literal in zip(which.tolist(), literals.tolist(), strict=True)
        ]
        self._counters.confirmed += len(checked)
        self._counters.refuted += checked.count(False)
        return checked


def literal_matcher(
    literals: Sequence[Literal], options: Options, counters: Counters
) -> LiteralMatcher | PlainLiteralMatcher:
    """The matcher for these literals under these switches."""
    if options.hyperscan and len(literals) >= _FEW:
        # In an order that does not depend on that of the rules: databases are known by their
        # content.
        literals = sorted(
            literals, key=lambda lit: (lit.anchored, lit.text, lit.at_start, lit.at_end)
        )
        expressions = [literal.expression for literal in literals]
        # The first occurrence says nothing about a literal that must be at the end.
        single = compile_single(
            expressions, counters, options.folder, every_match=[lit.at_end for lit in literals]
        )
        if single is not None:
            joined = (
                compile_joined(expressions, counters, options.folder)
                if options.joined_scan
                else None
            )
            return LiteralMatcher(literals, single, joined, counters)
    return PlainLiteralMatcher(literals, counters)
