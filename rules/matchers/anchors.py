"""LIKE with a start or end of one or two characters: so short a literal occurs everywhere, which
would flood the scan."""

from __future__ import annotations

from collections.abc import Iterable

from rules.matchers.base import HitList, Values

LONGEST = 2


class AnchorMatcher:
    """(leaf, text, whether it is the start or the end); texts have one or two characters."""

    def __init__(self, anchors: Iterable[tuple[int, str, bool]]) -> None:
        self._starts: dict[str, list[int]] = {}
        self._ends: dict[str, list[int]] = {}
        for leaf, text, at_start in anchors:
            (self._starts if at_start else self._ends).setdefault(text, []).append(leaf)

    def match(self, values: Values, hits: HitList) -> None:
        for table, first, second in (
            (self._starts, slice(1), slice(2)),
            (self._ends, slice(-1, None), slice(-2, None)),
        ):
            if not table:
                continue
            for value, text in enumerate(values.texts):
                if (leaves := table.get(text[first])) is not None:
                    hits.add(value, leaves)
                if len(text) > 1 and (leaves := table.get(text[second])) is not None:
                    hits.add(value, leaves)
