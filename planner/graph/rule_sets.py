"""Rule sets: all filters over one input, planned as one operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from planner.graph.chunked import Chunked
from planner.scalar import Call, Scalar, walk

Items: TypeAlias = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Route:
    """The rows of one filter on their way to a sink of one job: their projection to `items` is
    written to `target`, and `counted` for the job or not. An event's rows come in the order of
    (`job`, `place`, `rule`)."""

    job: str
    place: int
    rule: str
    items: Items
    target: str
    counted: bool = True


@dataclass(frozen=True)
class PlannedRule:
    """One filter, named by its id in the graph. `owners`: the jobs that use it; `routes`: where its
    rows are written; `goes_on`: other nodes read its rows, too."""

    predicate: Scalar
    owners: frozenset[str]
    routes: tuple[Route, ...] = ()
    goes_on: bool = False

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of all functions that the rule and its routes call."""
        expressions = (self.predicate, *(e for route in self.routes for _, e in route.items))
        return frozenset(n.function for e in expressions for n in walk(e) if isinstance(n, Call))


@dataclass(frozen=True)
class Target:
    """A sink that the output port `port` feeds; `routes`: how many routes lead to it."""

    port: int
    routes: int


@dataclass(frozen=True)
class RulesPlan:
    """All filters over one input.

    `rules`: by name; `targets`: by sink; `onward`: the output port of each rule that goes on;
    `ports`: how many ports have been given out. A port is never reused. `members`: rules that go on
    in families (`families.py`) by name, with the port that each shares with others and its number
    there, for each of its families; `numbers`: the column of these numbers by port."""

    rules: Chunked[PlannedRule] = field(default_factory=Chunked)
    targets: Chunked[Target] = field(default_factory=Chunked)
    onward: Mapping[str, int] = field(default_factory=dict)
    ports: int = 0
    members: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    numbers: Mapping[int, str] = field(default_factory=dict)

    def changed(self, rules: Mapping[str, PlannedRule | None]) -> RulesPlan:
        """The plan with `rules` added or replaced, or removed (None), at a cost that follows their
        number."""
        put = {name: rule for name, rule in rules.items() if rule is not None}
        targets, ports = self._targets(rules)
        onward = {
            name: port
            for name, port in self.onward.items()
            if name not in rules or _goes_on(rules[name])
        }
        for name, rule in put.items():
            if rule.goes_on and name not in onward:
                onward[name], ports = ports, ports + 1
        return RulesPlan(self.rules.changed(put, rules.keys() - put.keys()), targets, onward, ports)

    def _targets(self, rules: Mapping[str, PlannedRule | None]) -> tuple[Chunked[Target], int]:
        more: Counter[str] = Counter()
        for name, rule in rules.items():
            more.update(r.target for r in (rule.routes if rule else ()))
            more.subtract(r.target for r in (self.rules[name].routes if name in self.rules else ()))
        put, gone, ports = {}, [], self.ports
        for name, number in more.items():
            target = self.targets.get(name)
            if target is None:
                target, ports = Target(ports, 0), ports + 1
            if target.routes + number:
                put[name] = Target(target.port, target.routes + number)
            else:
                gone.append(name)
        return self.targets.changed(put, gone), ports


def _goes_on(rule: PlannedRule | None) -> bool:
    return rule is not None and rule.goes_on
