"""A rule set: rules that are matched together, in immutable segments.

The rules of the first compilation are the base segment; each change adds a delta segment, and
removed rules are masked. Deltas are compacted as in a log-structured merge tree, and everything is
compiled anew when much has changed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rules.block_matcher import OpaqueOf
from rules.columns import Columns, Mask
from rules.compile import YieldControl, compile_rules
from rules.compiled_rules import CompiledRules
from rules.condition import Condition
from rules.counters import Counters
from rules.options import Options
from rules.ragged import Ints

# Deltas are joined from the last one back (never the base) while they are at most so many times as
# large, or more than so many: a rule is compiled again only a few times while thousands are added
# one by one.
_MERGE, _MOST_DELTAS = 4, 3
# More than so many are worth joining, which takes several times as long as a change and so is done
# beside the stream; with so many it is behind, and the change waits for it.
_MANY_DELTAS, _TOO_MANY_DELTAS = 5, 10
# Beyond this share of the rules (and number) outside the base or removed from it, everything is
# worth compiling anew.
_STALE, _STALE_LEAST = 0.1, 64


@dataclass(frozen=True)
class Matches:
    """The (row, rule) pairs that match, sorted. `rules` are places in `RuleSet.ids`.

    `errors` are (row, rule id, reason) where a regular expression took too long and the rule's
    answer depends on it; `given_up` the ids among them whose expression is not evaluated any more,
    so that there will be more errors."""

    rows: npt.NDArray[np.int32]
    rules: npt.NDArray[np.int32]
    errors: Sequence[tuple[int, str, str]] = ()
    given_up: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class _Segment:
    """Compiled rules of one segment: `numbers` by id, `alive` by number (False: removed since),
    `places` in the set's ids."""

    compiled: CompiledRules
    numbers: Mapping[str, int]
    alive: Mask
    places: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        return int(self.alive.sum())

    def names(self) -> list[str]:
        return [name for name, number in self.numbers.items() if self.alive[number]]

    def without(self, gone: Collection[str]) -> _Segment:
        here = [self.numbers[name] for name in gone if name in self.numbers]
        if not here:
            return self
        alive = self.alive.copy()
        alive[here] = False
        return replace(self, alive=alive)

    def moved(self, removed: Sequence[int], added: Sequence[int]) -> _Segment:
        """Returns the segment after ids were removed at some places and, counted before that,
        others inserted before some places."""
        # Both counts refer to the places before the change: an id moves up by what is inserted
        # before it, and down by what is removed.
        before = np.searchsorted(added, self.places, "right") - np.searchsorted(
            removed, self.places
        )
        return replace(self, places=np.where(self.alive, self.places + before, -1).astype(np.int32))


@dataclass(frozen=True, eq=False)
class RuleSet:
    """Rules by id. `ids` are sorted. `counters` are shared by all sets that were made from one. A
    set is matched by one thread at a time; `change` and `rebuilt` may run in another."""

    options: Options
    rules: MappingProxyType[str, Condition]
    ids: tuple[str, ...]
    counters: Counters
    _segments: tuple[_Segment, ...] = field(default=(), repr=False)

    @staticmethod
    def empty(options: Options | None = None) -> RuleSet:
        return RuleSet(options or Options(), MappingProxyType({}), (), Counters())

    def change(self, add: Mapping[str, Condition], remove: Collection[str] = ()) -> RuleSet:
        """Returns this set without the rules `remove`, then with those of `add`, which replace
        others of the same id.

        Costs as much as what is added, and a little for each rule that is there. SqlError where a
        condition has a bad literal; an unknown id to remove is no error."""
        gone = {name for name in (*remove, *add) if name in self.rules}
        rules = self.rules.copy()
        for name in gone:
            del rules[name]
        rules.update(add)
        # Removing is masking; a segment with no rule left is dropped.
        segments = [segment.without(gone) for segment in self._segments]
        segments = [segment for segment in segments if segment.size]
        fresh = dict(add)
        if fresh and len(segments) > _TOO_MANY_DELTAS:
            fresh = _merge_segments(segments, rules, fresh)
        ids, segments = self._moved(gone, add, segments)
        if fresh:
            segments.append(self._compile(fresh, ids))
        return replace(
            self, rules=MappingProxyType(rules), ids=tuple(ids), _segments=tuple(segments)
        )

    def _moved(
        self, gone: Collection[str], add: Collection[str], segments: Sequence[_Segment]
    ) -> tuple[list[str], list[_Segment]]:
        """The ids after a change, and the segments with the places of their rules among them."""
        ids = list(self.ids)
        removed = sorted(bisect_left(ids, name) for name in gone)
        # Places are all found before any id is deleted, as `moved` counts them.
        added = sorted(bisect_left(ids, name) for name in add)
        # From the end, so that earlier places stay right.
        for place in reversed(removed):
            del ids[place]
        for name in add:
            insort(ids, name)
        return ids, [segment.moved(removed, added) for segment in segments]

    def rebuilt(self, yield_control: YieldControl | None = None) -> RuleSet:
        """Compiles the same rules into one segment.

        Takes long for many rules: meant to be run beside the stream, which `yield_control`, called
        every few ms, may let pass."""
        return replace(
            self,
            _segments=(self._compile(self.rules, self.ids, yield_control),) if self.rules else (),
        )

    def compacted(self, yield_control: YieldControl | None = None) -> RuleSet:
        """Compiles the same rules into fewer delta segments.

        Meant to be run beside the stream, too."""
        segments = list(self._segments)
        if len(segments) < 3:
            return self
        fresh = _merge_segments(
            segments, self.rules, {name: self.rules[name] for name in segments.pop().names()}
        )
        return replace(self, _segments=(*segments, self._compile(fresh, self.ids, yield_control)))

    def rebased_onto(self, rebuilt: RuleSet) -> RuleSet:
        """Returns this set's rules on the segments of `rebuilt`, which was made from an earlier
        version of it (or `compacted`)."""
        # Conditions are compared by identity: the same object was compiled.
        changed = {n: c for n, c in self.rules.items() if rebuilt.rules.get(n) is not c}
        return rebuilt.change(changed, rebuilt.rules.keys() - self.rules.keys())

    @property
    def is_freshly_compiled(self) -> bool:
        """True if the set is compiled as at a start, when its Hyperscan databases are looked for on
        disk."""
        return (
            all(segment.size == len(segment.alive) for segment in self._segments)
            and len(self._segments) < 2
        )

    @property
    def needs_rebuild(self) -> bool:
        """True if enough has changed since the last full compilation for `rebuilt` to pay."""
        if not self._segments:
            return False
        base = self._segments[0]
        # Rules outside the base, and those of the base that were removed or replaced since.
        changed = len(self.rules) - base.size + len(base.alive) - base.size
        return changed > max(_STALE_LEAST, _STALE * len(base.alive))

    @property
    def needs_compaction(self) -> bool:
        """True if there are so many deltas that each batch has to pay for them."""
        return len(self._segments) > 1 + _MANY_DELTAS

    def cached(self, fields: Collection[str]) -> tuple[int, int]:
        """Returns how many distinct values of some columns were asked for, and how many of them
        caches knew. Any thread."""
        found = [c for s in self._segments for c in s.compiled.caches(fields)]
        return sum(c.asked for c in found), sum(c.found for c in found)

    def match(self, columns: Columns, num_rows: int, opaque: OpaqueOf | None = None) -> Matches:
        """Rows of the batch and the rules that are TRUE of them. `opaque(key, rows)` gives, for
        rows of the batch in ascending order, where the expression is TRUE and where it is NULL; it
        is asked for candidates only. ExecutionError where a column is missing or of a type that the
        rules do not compare with."""
        # One integer key per pair: segments are matched one after the other, and one sort puts
        # their pairs in order.
        keys: list[Ints] = []
        errors: list[tuple[int, str, str]] = []
        given_up: set[str] = set()
        width = max(1, len(self.ids))
        for segment in self._segments if num_rows else ():
            # None spares the matcher a mask where nothing was removed.
            alive = None if segment.size == len(segment.alive) else segment.alive
            for block in segment.compiled.match(columns, num_rows, alive, opaque):
                keys.append(block.rows.astype(np.int64) * width + segment.places[block.rules])
                for row, rule, leaf in block.errors:
                    name = self.ids[segment.places[rule]]
                    errors.append((row, name, segment.compiled.reason(leaf)))
                    if segment.compiled.given_up(leaf):
                        given_up.add(name)
        # Sorting the keys sorts by row first and by rule second.
        rows, rules = np.divmod(
            np.sort(np.concatenate(keys)) if keys else np.empty(0, np.int64), width
        )
        return Matches(
            rows.astype(np.int32), rules.astype(np.int32), sorted(errors), frozenset(given_up)
        )

    def _compile(
        self,
        rules: Mapping[str, Condition],
        ids: Sequence[str],
        yield_control: YieldControl | None = None,
    ) -> _Segment:
        compiled = compile_rules(rules, self.options, self.counters, yield_control)
        places = np.array([bisect_left(ids, name) for name in rules], np.int32)
        return _Segment(
            compiled,
            {name: number for number, name in enumerate(rules)},
            np.ones(len(rules), np.bool_),
            places,
        )


def _merge_segments(
    segments: list[_Segment], rules: Mapping[str, Condition], fresh: dict[str, Condition]
) -> dict[str, Condition]:
    """Returns `fresh` with the rules of the last `segments` that are to be merged with it; those
    are taken from the list."""
    while len(segments) > 1 and (
        segments[-1].size <= _MERGE * len(fresh) or len(segments) > _MOST_DELTAS
    ):
        # A rule in `fresh` replaces one of the same id.
        fresh = {**{name: rules[name] for name in segments.pop().names()}, **fresh}
    return fresh
