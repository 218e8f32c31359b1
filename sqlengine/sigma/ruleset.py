"""Rules that belong together: those that filters change, and those that correlations name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
        found = (r for r in (*self.rules, *self.correlations) if r.about.called(reference))
        return next(found, None)

    def used(self) -> frozenset[str]:
        """Returns the ids and names of rules that only take part in correlations."""
        return frozenset(r for c in self.correlations if not c.generate for r in c.rules)

    def alerting(self) -> list[Rule | Correlation]:
        """Returns what gives alerts of its own."""
        used = self.used()
        every = (*self.rules, *self.correlations)
        return [r for r in every if not used & {r.about.id or r.about.name, r.about.name}]

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
