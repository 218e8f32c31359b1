"""Rules that belong together: those that filters change, and those that correlations name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlengine.sigma.rules import All, Correlation, Document, Filter, Rule, Unread


@dataclass(frozen=True)
class Ruleset:
    """Rules with their filters applied, and correlations; `filters` and `unread` for who tells of
    them."""

    rules: tuple[Rule, ...]
    correlations: tuple[Correlation, ...]
    filters: tuple[Filter, ...]
    unread: tuple[Unread, ...]

    def named(self, reference: str) -> Rule | Correlation | None:
        """Returns what an id or a name stands for."""
        return self._by_name.get(reference)

    @property
    def every(self) -> list[Rule | Correlation]:
        return [*self.rules, *self.correlations]

    @cached_property
    def _by_name(self) -> dict[str, Rule | Correlation]:
        """The first with a name counts."""
        found = ((name, r) for r in self.every for name in (r.about.id, r.about.name) if name)
        return dict(reversed(list(found)))

    def used(self) -> frozenset[str]:
        """Returns the ids and names of rules that only take part in correlations: not in one that
        comes back to itself, which is refused."""
        taking = [c for c in self.correlations if not c.generate and not self._is_circular(c)]
        return frozenset(r for c in taking for r in c.rules)

    def _is_circular(self, correlation: Correlation) -> bool:
        waiting, seen = list(correlation.rules), set[str]()
        while waiting:
            reference = waiting.pop()
            found = self.named(reference)
            if found is correlation:
                return True
            if isinstance(found, Correlation) and reference not in seen:
                seen.add(reference)
                waiting += found.rules
        return False

    def alerting(self) -> list[Rule | Correlation]:
        """Returns what gives alerts of its own."""
        used = self.used()
        return [r for r in self.every if not used & {r.about.id, r.about.name} - {""}]

    def idle(self) -> list[Filter]:
        """Returns the filters that change no rule."""
        return [f for f in self.filters if not any(applies(f, r) for r in self.rules)]


def ruleset(documents: Iterable[Document]) -> Ruleset:
    rules, correlations, filters, unread = [], [], [], []
    for document in documents:
        match document:
            case Rule():
                rules.append(document)
            case Correlation():
                correlations.append(document)
            case Filter():
                filters.append(document)
            case Unread():
                unread.append(document)
    filtered = tuple(_filtered(rule, filters) for rule in rules)
    return Ruleset(filtered, tuple(correlations), tuple(filters), tuple(unread))


def applies(each: Filter, rule: Rule) -> bool:
    if not rule.source.within(each.source):
        return False
    return each.rules is None or any(rule.about.called(r) for r in each.rules)


def _filtered(rule: Rule, filters: Sequence[Filter]) -> Rule:
    wanted = [f.condition for f in filters if applies(f, rule)]
    return replace(rule, condition=All((rule.condition, *wanted))) if wanted else rule
