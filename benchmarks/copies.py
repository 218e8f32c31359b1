"""Many passes over one log without more repetition than one pass has.

A log that is replayed makes every cache look good. Here each copy renames ids, numbers and a share
of the tokens of its texts: a value that comes five times in a pass comes five times in each copy,
under a name of its own there. What rules see stays: a changed value makes the same predicates true
as the one it stands for, so that each copy raises the alerts of one pass. Where no change does that
(a rule asks for the whole text) the value stays, and another one that repeats gets one name more:
each copy has as many new values of a field as the pass has values."""

from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import pyarrow as pa

from rules.columns import Columns
from rules.condition import And, Condition, Not, Or, Predicate, Test
from rules.ruleset import RuleSet

ID = "_id"
# Ids of one copy are so far from those of the next.
STRIDE = 10_000_000
# Fields of which so many values are repetitions hold a few constants: their values stay.
CONSTANT = 0.99
# Shares of the tokens to change, tried in this order; 0: one token, None: another token is put in.
_SHARES = (0.4, 0.2, 0.1, *[0.0] * 6, *[None] * 6)
# A value that repeats gets at most so many names in a copy.
_MOST_NAMES = 4
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
    """Makes copies of `events` that raise the same alerts from `conditions`. Copy 0 is the log
    itself. A value has the same new name in all fields, so that what was equal stays equal."""

    def __init__(self, events: Sequence[Event], conditions: Sequence[Condition]) -> None:
        self._events = events
        names = sorted({n for e in events for n in e} - {ID})
        rates = repetition(events, names)
        self._counts = {n: _counts(events, n) for n in names if rates[n].share < CONSTANT}
        self._places: dict[str, list[str]] = {}
        for name, counts in self._counts.items():
            for value in counts:
                self._places.setdefault(value, []).append(name)
        self._seers = {n: s for n, s in _seers(conditions).items() if n in self._counts}
        self._seen = {
            n: dict(zip(self._counts[n], s.sees(list(self._counts[n])), strict=True))
            for n, s in self._seers.items()
        }
        self._taken = set(self._places)
        self._compared = _equal_in_one_event(events, self._seers)

    def copy(self, number: int) -> list[Event]:
        """The events of copy `number`, each copy to be made once."""
        if number == 0:
            return list(self._events)
        names = self._renamed(list(self._places), f"{number}")
        columns = {field: self._column(field, number, names) for field in self._counts}
        copied = [
            {k: columns[k][i] if k in columns else v for k, v in e.items()}
            for i, e in enumerate(self._events)
        ]
        for event in copied:
            identity = event[ID]
            assert isinstance(identity, int)
            event[ID] = identity + number * STRIDE
        return copied

    def _column(self, field: str, number: int, renamed: Mapping[str, str]) -> list[object]:
        """The field in all events of a copy. Values that no event has in two fields may get several
        names."""
        counts = self._counts[field]
        names = {v: [renamed[v]] for v in counts if v in renamed}
        missing = len(counts) - len(names)
        for extra in range(1, _MOST_NAMES):
            again = [v for v in names if counts[v] > extra and v.lower() not in self._compared][
                :missing
            ]
            for value, new in self._renamed(again, f"{number}/{extra}").items():
                names[value].append(new)
                missing -= 1
        turns = {v: cycle(news) for v, news in names.items()}
        column = (e.get(field) for e in self._events)
        return [next(turns[v]) if isinstance(v, str) and v in turns else v for v in column]

    def _renamed(self, values: Sequence[str], seed: str) -> dict[str, str]:
        """New texts by old, for those that have one."""
        found: dict[str, str] = {}
        for attempt, share in enumerate(_SHARES):
            waiting = [v for v in values if v not in found]
            tried = {
                v: _vary(v, share, random.Random(f"{seed}/{attempt}/{v.lower()}")) for v in waiting
            }
            changed = self._changed(tried)
            for old, new in tried.items():
                if old not in changed and new not in self._taken:
                    found[old] = new
                    self._taken.add(new)
        return found

    def _changed(self, tried: Mapping[str, str]) -> set[str]:
        """The old texts in whose new ones rules see something else, in some field."""
        changed = set()
        for field, seer in self._seers.items():
            old = [v for v in tried if field in self._places[v]]
            sees = seer.sees([tried[v] for v in old]) if old else []
            changed |= {
                v for v, seen in zip(old, sees, strict=True) if seen != self._seen[field][v]
            }
        return changed


def to_lines(events: Sequence[Event]) -> list[bytes]:
    """The events as records."""
    return [json.dumps(e, ensure_ascii=False).encode() for e in events]


def read_fields(conditions: Sequence[Condition]) -> list[str]:
    """The fields that the conditions look at."""
    return sorted({p.variable.field for p in _predicates(conditions)})


def _counts(events: Sequence[Event], name: str) -> Counter[str]:
    return Counter(v for e in events if isinstance(v := e.get(name), str))


def _equal_in_one_event(events: Sequence[Event], fields: Collection[str]) -> set[str]:
    """Texts, in lower case, that some event has in two of the fields."""
    found = set()
    for event in events:
        counts = Counter(v.lower() for f in fields if isinstance(v := event.get(f), str))
        found |= {v for v, count in counts.items() if count > 1}
    return found


def _vary(value: str, share: float | None, chance: random.Random) -> str:
    """The value with `share` of its tokens, and one at least, replaced by others of the same
    form."""
    places = [m.span() for m in _TOKEN.finditer(value)]
    if share is None or not places:
        _, at = chance.choice(places or [(0, len(value))])
        return f"{value[:at]} {_like('aaaa', chance)}{value[at:]}"
    letters = list(value)
    for start, end in chance.sample(places, max(1, round(share * len(places)))):
        letters[start:end] = _like(value[start:end], chance)
    return "".join(letters)


def _like(token: str, chance: random.Random) -> str:
    """Digits for digits, small letters for small ones, capitals for capitals."""
    kinds = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
    return "".join(chance.choice(next(k for k in kinds if c in k)) for c in token)


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
