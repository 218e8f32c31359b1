"""A set of rules that are matched together. It is a value: a change makes another set, which shares
what stays.

The rules of the first compilation are the base; those of each change lie beside it as a delta,
until deltas are joined and everything is compiled anew."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rules.block_matcher import OpaqueOf
from rules.columns import Columns, Mask
from rules.compile import Breathe, compile_part
from rules.condition import Condition
from rules.counters import Counters
from rules.options import Options
from rules.part import Part
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
_WORN, _WORN_LEAST = 0.1, 64


@dataclass(frozen=True)
class Matches:
    """Which rules match which rows: pairs sorted by row and then by rule. `rules` are places in
    `RuleSet.ids`. `errors` are (row, rule id, reason) where a regular expression took too long and
    the rule's answer depends on it; `given_up` the ids among them whose expression is not asked any
    more, so that there will be more errors."""

    rows: npt.NDArray[np.int32]
    rules: npt.NDArray[np.int32]
    errors: Sequence[tuple[int, str, str]] = ()
    given_up: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class _Layer:
    """A part and its rules: `numbers` by id, `alive` by number (False: removed since), `places` in
    the set's ids."""

    part: Part
    numbers: Mapping[str, int]
    alive: Mask
    places: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        return int(self.alive.sum())

    def names(self) -> list[str]:
        return [name for name, number in self.numbers.items() if self.alive[number]]

    def without(self, gone: Collection[str]) -> _Layer:
        here = [self.numbers[name] for name in gone if name in self.numbers]
        if not here:
            return self
        alive = self.alive.copy()
        alive[here] = False
        return replace(self, alive=alive)

    def moved(self, removed: Sequence[int], added: Sequence[int]) -> _Layer:
        """After ids were removed at some places and, counted before that, others put in front of
        some places."""
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
    _layers: tuple[_Layer, ...] = field(default=(), repr=False)

    @staticmethod
    def empty(options: Options | None = None) -> RuleSet:
        return RuleSet(options or Options(), MappingProxyType({}), (), Counters())

    def change(self, add: Mapping[str, Condition], remove: Collection[str] = ()) -> RuleSet:
        """This set without the rules `remove`, then with those of `add`, which replace others of
        the same id. Costs what is added, and a little for each rule that is there. SqlError where a
        condition has a bad literal; an id to remove that is not there is no error."""
        gone = {name for name in (*remove, *add) if name in self.rules}
        rules = self.rules.copy()
        for name in gone:
            del rules[name]
        rules.update(add)
        layers = [layer.without(gone) for layer in self._layers]
        layers = [layer for layer in layers if layer.size]
        fresh = dict(add)
        if fresh and len(layers) > _TOO_MANY_DELTAS:
            fresh = _joined(layers, rules, fresh)
        ids, layers = self._moved(gone, add, layers)
        if fresh:
            layers.append(self._compile(fresh, ids))
        return replace(self, rules=MappingProxyType(rules), ids=tuple(ids), _layers=tuple(layers))

    def _moved(
        self, gone: Collection[str], add: Collection[str], layers: Sequence[_Layer]
    ) -> tuple[list[str], list[_Layer]]:
        """The ids after a change, and the layers with the places of their rules among them."""
        ids = list(self.ids)
        removed = sorted(bisect_left(ids, name) for name in gone)
        added = sorted(bisect_left(ids, name) for name in add)
        for place in reversed(removed):
            del ids[place]
        for name in add:
            insort(ids, name)
        return ids, [layer.moved(removed, added) for layer in layers]

    def rebuilt(self, breathe: Breathe | None = None) -> RuleSet:
        """The same rules, compiled as one. Takes long for many rules: meant to be run beside the
        stream, which `breathe`, called every few ms, may let pass."""
        return replace(
            self, _layers=(self._compile(self.rules, self.ids, breathe),) if self.rules else ()
        )

    def joined(self, breathe: Breathe | None = None) -> RuleSet:
        """The same rules with fewer deltas. Meant to be run beside the stream, too."""
        layers = list(self._layers)
        if len(layers) < 3:
            return self
        fresh = _joined(
            layers, self.rules, {name: self.rules[name] for name in layers.pop().names()}
        )
        return replace(self, _layers=(*layers, self._compile(fresh, self.ids, breathe)))

    def onto(self, rebuilt: RuleSet) -> RuleSet:
        """This set's rules on the parts of `rebuilt`, which was made from an earlier version of it
        (or `joined`)."""
        changed = {n: c for n, c in self.rules.items() if rebuilt.rules.get(n) is not c}
        return rebuilt.change(changed, rebuilt.rules.keys() - self.rules.keys())

    @property
    def is_whole(self) -> bool:
        """Whether it is compiled as it would be at a start, when its databases are looked for on
        disk."""
        return (
            all(layer.size == len(layer.alive) for layer in self._layers) and len(self._layers) < 2
        )

    @property
    def needs_rebuild(self) -> bool:
        """Whether enough has changed since the last full compilation for `rebuilt` to be worth
        while."""
        if not self._layers:
            return False
        base = self._layers[0]
        changed = len(self.rules) - base.size + len(base.alive) - base.size
        return changed > max(_WORN_LEAST, _WORN * len(base.alive))

    @property
    def needs_joining(self) -> bool:
        """Whether there are so many deltas that each batch has to pay for them."""
        return len(self._layers) > 1 + _MANY_DELTAS

    def match(self, columns: Columns, num_rows: int, opaque: OpaqueOf | None = None) -> Matches:
        """Rows of the batch and the rules that are TRUE of them. `opaque(key, rows)` gives, for
        rows of the batch in ascending order, where the expression is TRUE and where it is NULL; it
        is asked for candidates only. ExecutionError where a column is missing or of a type that the
        rules do not compare with."""
        keys: list[Ints] = []
        errors: list[tuple[int, str, str]] = []
        given_up: set[str] = set()
        width = max(1, len(self.ids))
        for layer in self._layers if num_rows else ():
            alive = None if layer.size == len(layer.alive) else layer.alive
            for found in layer.part.match(columns, num_rows, alive, opaque):
                keys.append(found.rows.astype(np.int64) * width + layer.places[found.rules])
                for row, rule, leaf in found.errors:
                    name = self.ids[layer.places[rule]]
                    errors.append((row, name, layer.part.reason(leaf)))
                    if layer.part.given_up(leaf):
                        given_up.add(name)
        rows, rules = np.divmod(
            np.sort(np.concatenate(keys)) if keys else np.empty(0, np.int64), width
        )
        return Matches(
            rows.astype(np.int32), rules.astype(np.int32), sorted(errors), frozenset(given_up)
        )

    def _compile(
        self, rules: Mapping[str, Condition], ids: Sequence[str], breathe: Breathe | None = None
    ) -> _Layer:
        part = compile_part(rules, self.options, self.counters, breathe)
        places = np.array([bisect_left(ids, name) for name in rules], np.int32)
        return _Layer(
            part,
            {name: number for number, name in enumerate(rules)},
            np.ones(len(rules), np.bool_),
            places,
        )


def _joined(
    layers: list[_Layer], rules: Mapping[str, Condition], fresh: dict[str, Condition]
) -> dict[str, Condition]:
    """`fresh`, and the rules of those `layers` that are to be one with it, which are taken away."""
    while len(layers) > 1 and (
        layers[-1].size <= _MERGE * len(fresh) or len(layers) > _MOST_DELTAS
    ):
        fresh = {**{name: rules[name] for name in layers.pop().names()}, **fresh}
    return fresh
