"""Many passes over one log without more repetition than one pass has.

A log that is replayed makes every cache look good. Here each copy renames ids, numbers and a share of the tokens of its
texts: a value that comes five times in a pass comes five times in each copy, under a name of its own there. What rules
see stays: a changed value makes the same predicates true as the one it stands for (where no change does that, the value
stays as it is), so that each copy raises the alerts of one pass."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rules.columns import Columns
from rules.condition import And, Condition, Not, Or, Predicate, Test
from rules.ruleset import RuleSet

ID = "_id"
# Ids of one copy are so far from those of the next.
STRIDE = 10_000_000
# Fields of which so many values are repetitions hold a few constants: their values stay.
CONSTANT = 0.99
# Shares of the tokens to change, tried in this order. 0: one token of the value.
_SHARES = (0.4, 0.2, 0.1, 0.0, 0.0, 0.0)
_TOKEN = re.compile(r"[0-9A-Za-z]{2,}")

Event = dict[str, object]


@dataclass(frozen=True)
class Repetition:
    """Of `values` (not NULL) of a field so many are `distinct`."""

    values: int
    distinct: int

    @property
    def share(self) -> float:
        return 1 - self.distinct / max(1, self.values)


def repetition(events: Sequence[Event], names: Sequence[str]) -> dict[str, Repetition]:
    """By field, the rows whose value stood in a row before."""
    columns = {n: [str(e[n]) for e in events if e.get(n) is not None] for n in names}
    return {n: Repetition(len(values), len(set(values))) for n, values in columns.items()}


class Copier:
    """Makes copies of `events` that raise the same alerts from `conditions`. Copy 0 is the log itself."""

    def __init__(self, events: Sequence[Event], conditions: Sequence[Condition]) -> None:
        self._events = events
        self._seers = _seers(conditions)
        names = sorted({n for e in events for n in e} - {ID})
        rates = repetition(events, names)
        self._values = {n: _texts(events, n) for n in names if rates[n].share < CONSTANT}
        self._taken = {n: set(values) for n, values in self._values.items()}
        self._seen = {n: self._seers[n].sees(v) for n, v in self._values.items() if n in self._seers}

    def copy(self, number: int) -> list[Event]:
        """The events of copy `number`, each copy to be made once."""
        if number == 0:
            return list(self._events)
        renamed = {name: self._renamed(name, number) for name in self._values}
        return [self._event(e, number, renamed) for e in self._events]

    def _event(self, event: Event, number: int, renamed: Mapping[str, Mapping[str, str]]) -> Event:
        copied = {k: renamed[k].get(v, v) if k in renamed and isinstance(v, str) else v for k, v in event.items()}
        identity = event[ID]
        assert isinstance(identity, int)
        copied[ID] = identity + number * STRIDE
        return copied

    def _renamed(self, name: str, number: int) -> dict[str, str]:
        """New texts by old, for those that have one."""
        found: dict[str, str] = {}
        waiting = {v: i for i, v in enumerate(self._values[name])}
        for attempt, share in enumerate(_SHARES):
            tried = [(v, _vary(v, share, random.Random(f"{number}/{name}/{attempt}/{v}"))) for v in waiting]
            seen = self._seers[name].sees([new for _, new in tried]) if name in self._seers else []
            for (old, new), sees in zip(tried, seen or [b""] * len(tried), strict=True):
                if new not in self._taken[name] and (not seen or sees == self._seen[name][waiting[old]]):
                    found[old] = new
                    self._taken[name].add(new)
            waiting = {v: i for v, i in waiting.items() if v not in found}
        return found


def to_lines(events: Sequence[Event]) -> list[bytes]:
    """The events as records."""
    return [json.dumps(e, ensure_ascii=False).encode() for e in events]


def read_fields(conditions: Sequence[Condition]) -> list[str]:
    """The fields that the conditions look at."""
    return sorted({p.variable.field for p in _predicates(conditions)})


def _texts(events: Sequence[Event], name: str) -> list[str]:
    return list(dict.fromkeys(v for e in events if isinstance(v := e.get(name), str)))


def _vary(value: str, share: float, chance: random.Random) -> str:
    """The value with `share` of its tokens, and one at least, replaced by others of the same form."""
    places = [m.span() for m in _TOKEN.finditer(value)]
    if not places:
        return value + chance.choice(string.ascii_lowercase) * chance.randrange(1, 4)
    chosen = chance.sample(places, max(1, round(share * len(places))))
    letters = list(value)
    for start, end in chosen:
        letters[start:end] = [_letter(c, chance) for c in value[start:end]]
    return "".join(letters)


def _letter(letter: str, chance: random.Random) -> str:
    for kind in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if letter in kind:
            return chance.choice(kind)
    return letter


class _Seer:
    """All predicates on one field, as rules of their own."""

    def __init__(self, name: str, predicates: Sequence[Predicate]) -> None:
        self._name = name
        self._rules = RuleSet.empty().change({f"{i:06}": p for i, p in enumerate(predicates)})

    def sees(self, values: Sequence[str]) -> list[bytes]:
        """For each value which predicates are true of it."""
        found = self._rules.match(Columns({self._name: pa.array(values, pa.string())}), len(values))
        seen: list[list[int]] = [[] for _ in values]
        for row, rule in zip(found.rows.tolist(), found.rules.tolist(), strict=True):
            seen[row].append(rule)
        return [str(s).encode() for s in seen]


def _seers(conditions: Sequence[Condition]) -> dict[str, _Seer]:
    by_field: dict[str, dict[Predicate, None]] = {}
    for predicate in _predicates(conditions):
        if predicate.operator != "IS NULL":
            by_field.setdefault(predicate.variable.field, {})[predicate] = None
    return {name: _Seer(name, list(found)) for name, found in by_field.items()}


def _predicates(conditions: Sequence[Condition]) -> Iterator[Predicate]:
    work = list(conditions)
    while work:
        match work.pop():
            case Predicate() as predicate:
                yield predicate
            case And(children) | Or(children):
                work.extend(children)
            case Not(child) | Test(child):
                work.append(child)
