"""Predicate indexes: one per variable, over the leaves of all rules.

An index maps the values of a batch to slots, the posting lists of the leaves that are TRUE for
them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from parser.errors import ExecutionError, SqlError
from rules.cache import EMPTY_SLOT, NULL_SLOT, DeadSlots, Slots, ValueCache
from rules.columns import Columns, Mask, derivation
from rules.condition import Variable
from rules.counters import Counters
from rules.leaves import Between, Equal, Matching, Network, Nothing
from rules.like import LikePattern
from rules.matchers.anchors import LONGEST, AnchorMatcher
from rules.matchers.base import HitList, Matcher, Values
from rules.matchers.cidr import CidrMatcher
from rules.matchers.equality import EqualityMatcher
from rules.matchers.fallback import WildcardMatcher
from rules.matchers.literals import Literal, literal_matcher, literal_of
from rules.matchers.ranges import Places, RangeMatcher
from rules.matchers.regexes import regex_matcher
from rules.new_slots import NewSlots
from rules.options import Options
from rules.ragged import Ints
from rules.slow_patterns import SlowPatterns
from udf.java.regex import JavaRegex

Numbered: TypeAlias = Sequence[tuple[int, Matching]]

_NONE_DEAD = DeadSlots(0, 0)
T = TypeVar("T", bound=Hashable)


class PredicateIndex(Protocol):
    """The index of all leaves on one variable.

    The number of the variable marks its slots in the store. `cache`: of its values, None if it
    needs none."""

    variable: Variable
    cache: ValueCache | None

    def slots(self, columns: Columns, new: NewSlots) -> tuple[Slots, DeadSlots]:
        """The slot of each row's value, and the slots that nobody will find again."""
        ...

    def renumber(self, new_number: Ints) -> None:
        """The store has moved slot i to `new_number[i]`."""
        ...

    def live_slots(self) -> Ints:
        """The slots that will be found again."""
        ...


def build_index(
    number: int,
    variable: Variable,
    leaves: Numbered,
    options: Options,
    slow_patterns: SlowPatterns,
    counters: Counters,
) -> PredicateIndex:
    """Builds the index of a variable. SqlError if it is compared with texts and with numbers."""
    # `Nothing` compares with neither, hence the None that is taken out.
    kinds = {_kind(matching) for _, matching in leaves} - {None}
    if len(kinds) > 1:
        raise SqlError(f"'{variable}' is compared with texts and with numbers")
    cache = ValueCache(options, counters)
    if kinds == {"text"} or variable.transforms:
        return TextIndex(
            number, variable, _matchers(leaves, options, slow_patterns, counters), cache
        )
    if kinds == {"number"}:
        return NumberIndex(number, variable, Places(_comparisons(leaves)), cache)
    return NullIndex(variable)


def _kind(matching: Matching) -> str | None:
    match matching:
        case Nothing():
            return None
        case Equal(values):
            value: object = next(iter(values))
        case Between(low, _, high, _):
            value = high if low is None else low
        case _:
            return "text"
    return "text" if isinstance(value, str) else "number"


def _comparisons(leaves: Numbered) -> list[tuple[int, Equal | Between]]:
    return [(n, m) for n, m in leaves if isinstance(m, Equal | Between)]


def _matchers(
    leaves: Numbered, options: Options, slow_patterns: SlowPatterns, counters: Counters
) -> list[Matcher]:
    """Builds a matcher for each family of operators that occurs."""
    equal = [(n, m) for n, m in leaves if isinstance(m, Equal)]
    ranges = [(n, m) for n, m in leaves if isinstance(m, Between)]
    networks = [(n, m) for n, m in leaves if isinstance(m, Network)]
    matchers: list[Matcher] = []
    if equal:
        matchers.append(EqualityMatcher(equal))
    if ranges:
        matchers.append(RangeMatcher(ranges))
    if networks:
        matchers.append(CidrMatcher(networks))
    matchers += _like_matchers(leaves, options, counters)
    patterns = [(n, m) for n, m in leaves if isinstance(m, JavaRegex)]
    if patterns:
        matchers.append(regex_matcher(patterns, options, slow_patterns, counters))
    return matchers


def _like_matchers(leaves: Numbered, options: Options, counters: Counters) -> list[Matcher]:
    """Builds the matchers of the LIKE patterns among the leaves.

    Short prefixes and suffixes are looked up in a hash table. Patterns with a literal are found by
    a multi-pattern scan for it. Patterns of wildcards only are tried one by one."""
    anchors: list[Literal] = []
    scanned: list[Literal] = []
    wildcards: list[tuple[int, LikePattern]] = []
    for leaf, pattern in leaves:
        if not isinstance(pattern, LikePattern):
            continue
        literal = literal_of(leaf, pattern)
        if literal is None:
            wildcards.append((leaf, pattern))
        elif literal.anchored and len(literal.text) <= LONGEST:
            anchors.append(literal)
        else:
            scanned.append(literal)
    matchers: list[Matcher] = []
    if anchors:
        matchers.append(AnchorMatcher([(x.leaf, x.text, x.at_start) for x in anchors]))
    if scanned:
        matchers.append(literal_matcher(scanned, options, counters))
    if wildcards:
        matchers.append(WildcardMatcher(wildcards, counters))
    return matchers


def _through_cache(
    cache: ValueCache, values: list[T], match: Callable[[list[T]], tuple[int, int]]
) -> tuple[Slots, DeadSlots]:
    """The slots of values, each of which is there once: those that the cache does not know are
    matched. `match` gives the number of the first slot made, and how many leaves these hold."""
    slots = cache.look_up(values)
    places = np.flatnonzero(slots < 0)
    if not len(places):
        return slots, _NONE_DEAD
    # Mostly all or none is missing: no copy of the list where all are.
    missing = values if len(places) == len(values) else [values[i] for i in places.tolist()]
    # The clock starts before the matchers run, for what is judged is their cost.
    begin = cache.start()
    first, leaves = match(missing)
    # New slots have consecutive numbers, in the order of the missing values.
    slots[places] = np.arange(first, first + len(missing))
    return slots, cache.matched(missing, begin, first, leaves)


class TextIndex:
    """Looks distinct values up in the cache, and runs the matchers on those that it misses."""

    def __init__(
        self, number: int, variable: Variable, matchers: Sequence[Matcher], cache: ValueCache
    ) -> None:
        self.variable = variable
        self._number, self._matchers = number, matchers
        self.cache: ValueCache | None = cache
        self._cache = cache

    def slots(self, columns: Columns, new: NewSlots) -> tuple[Slots, DeadSlots]:
        # The cache knows values as they stand in the column: only what it misses is derived.
        raw = self._cache.is_on and bool(self.variable.transforms)
        texts = columns.texts(Variable(self.variable.field) if raw else self.variable)
        derive = derivation(self.variable) if raw else None

        def match(missing: list[str]) -> tuple[int, int]:
            values = missing if derive is None else [derive(text) for text in missing]
            return new.add(self._number, len(values), lambda hits: self._match(values, hits))

        slots, dead = _through_cache(self._cache, texts.values, match)
        # Code -1 is NULL: the last place.
        return np.append(slots, np.int32(NULL_SLOT))[texts.codes], dead

    def _match(self, texts: list[str], hits: HitList) -> None:
        values = Values(texts)
        for matcher in self._matchers:
            matcher.match(values, hits)

    def renumber(self, new_number: Ints) -> None:
        self._cache.renumber(new_number)

    def live_slots(self) -> Ints:
        return np.array(list(self._cache.slots.values()), np.int64)


class NumberIndex:
    """Locates each number between the sorted bounds of all comparisons.

    Each such interval is one slot, made when it is first seen."""

    def __init__(self, number: int, variable: Variable, places: Places, cache: ValueCache) -> None:
        self.variable = variable
        self._number, self._places = number, places
        self.cache: ValueCache | None = cache
        self._cache = cache
        bounds = places.bounds
        self._integers = _array(bounds, int, np.int64)
        self._floats = _array(bounds, float, np.float64)

    def slots(self, columns: Columns, new: NewSlots) -> tuple[Slots, DeadSlots]:
        places, nulls = self._places_of(columns)
        # Rows in one interval share a slot, so the index works on distinct places.
        known, codes = np.unique(places, return_inverse=True)
        slots_of_places, dead = _through_cache(
            self._cache, known.tolist(), lambda missing: self._add(missing, new)
        )
        slots = slots_of_places[codes]
        if nulls is not None:
            slots[nulls] = NULL_SLOT
        return slots, dead

    def _add(self, missing: list[int], new: NewSlots) -> tuple[int, int]:
        # Place -1 is NaN, for which no comparison is TRUE.
        lists = [self._places.leaves_at(p) if p >= 0 else np.empty(0, np.int64) for p in missing]
        leaves = np.concatenate(lists)
        values = np.repeat(np.arange(len(lists)), [len(x) for x in lists])
        return new.add(self._number, len(missing), lambda hits: hits.add_pairs(values, leaves))

    def _places_of(self, columns: Columns) -> tuple[Ints, Mask | None]:
        """The place of each row's number, -1 for NaN, and the rows that are NULL."""
        numbers = columns.numbers(self.variable.field)
        if numbers is None:
            return self._exact_places(columns)
        bounds = self._floats if numbers.values.dtype == np.float64 else self._integers
        if bounds is None:
            # Without an array of bounds NumPy could round: 2**53 + 1 is no double.
            return self._exact_places(columns)
        # Place 2i lies before bound i, 2i + 1 is the bound itself (see `matchers.ranges`).
        at = np.searchsorted(bounds, numbers.values)
        # Rows behind the last bound have no bound to be compared with.
        places = 2 * at
        inside = np.flatnonzero(at < len(bounds))
        places[inside] += bounds[at[inside]] == numbers.values[inside]
        if numbers.values.dtype == np.float64:
            places[np.isnan(numbers.values)] = -1
        return places, numbers.nulls

    def _exact_places(self, columns: Columns) -> tuple[Ints, Mask | None]:
        """Locates numbers one by one, with Python's exact comparison of different kinds of numbers
        (DECIMAL columns)."""
        name = self.variable.field
        numbers = columns.numbers(name)
        values = columns.array(name).to_pylist() if numbers is None else numbers.values.tolist()
        if isinstance(next((v for v in values if v is not None), 0), str | bytes | list | dict):
            raise ExecutionError(
                f"a rule compares the column '{name}' with numbers", detail="its values are none"
            )
        # NaN differs from itself.
        places = [-1 if v is None or v != v else self._places.place(v) for v in values]
        return np.array(places, np.int64), columns.nulls(name)

    def renumber(self, new_number: Ints) -> None:
        self._cache.renumber(new_number)

    def live_slots(self) -> Ints:
        return np.array(list(self._cache.slots.values()), np.int64)


def _array(bounds: Sequence[bool | int | float | Decimal], kind: type, dtype: type) -> Ints | None:
    """The bounds as an array that compares as they do, None where there is none."""
    # A bool is an int in Python, and compares as 0 or 1.
    allowed = (int,) if kind is int else (int, float)
    # A bound that is not representable in the array's type would move.
    if not all(isinstance(b, allowed) and kind(b) == b for b in bounds):
        return None
    if kind is int and not all(-(2**63) <= b < 2**63 for b in bounds):
        return None
    return np.array([kind(b) for b in bounds], dtype)


class NullIndex:
    """A variable that is tested for NULL only, whatever its type."""

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self.cache: ValueCache | None = None

    def slots(self, columns: Columns, new: NewSlots) -> tuple[Slots, DeadSlots]:
        nulls = columns.nulls(self.variable.field)
        if nulls is None:
            return np.full(
                len(columns.array(self.variable.field)), EMPTY_SLOT, np.int32
            ), _NONE_DEAD
        return np.where(nulls, np.int32(NULL_SLOT), np.int32(EMPTY_SLOT)), _NONE_DEAD

    def renumber(self, new_number: Ints) -> None:
        """Does nothing: the index has no slots of its own."""

    def live_slots(self) -> Ints:
        return np.empty(0, np.int64)
