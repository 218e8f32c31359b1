"""The plan of all filters over one input as one set of rules."""

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
    """What one job does with the rows of one filter: `items` of them, into the sink `target`. An
    event's rows come in the order of (`job`, `place`, `rule`)."""

    job: str
    place: int
    rule: str
    items: Items
    target: str


@dataclass(frozen=True)
class PlannedRule:
    """One filter; its name is the filter's id in the graph. `owners` are the jobs that use it.
    `routes` lead to sinks; `goes_on` if other nodes read its rows, too."""

    predicate: Scalar
    owners: frozenset[str]
    routes: tuple[Route, ...] = ()
    goes_on: bool = False

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of all functions that it calls, in its routes, too."""
        expressions = (self.predicate, *(e for route in self.routes for _, e in route.items))
        return frozenset(n.function for e in expressions for n in walk(e) if isinstance(n, Call))


@dataclass(frozen=True)
class Target:
    """A sink that routes lead to, so many, by the port `port`."""

    port: int
    routes: int


@dataclass(frozen=True)
class RulesPlan:
    """All filters over one input, by name. `targets` by sink; `onward`: the port of each rule that
    goes on. Ports are never used again; `ports` is the number of those that were."""

    rules: Chunked[PlannedRule] = field(default_factory=Chunked)
    targets: Chunked[Target] = field(default_factory=Chunked)
    onward: Mapping[str, int] = field(default_factory=dict)
    ports: int = 0

    def changed(self, rules: Mapping[str, PlannedRule | None]) -> RulesPlan:
        """With other rules, or (None) without. The cost follows the number of `rules`."""
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
            held = self.targets.get(name)
            if held is None:
                held, ports = Target(ports, 0), ports + 1
            if held.routes + number:
                put[name] = Target(held.port, held.routes + number)
            else:
                gone.append(name)
        return self.targets.changed(put, gone), ports


def _goes_on(rule: PlannedRule | None) -> bool:
    return rule is not None and rule.goes_on
