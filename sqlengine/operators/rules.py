"""The rules operator: all filters over one input as one rule set, and the projections behind them.

The cost does not grow with the number of rules: the rule set finds the (row, rule) pairs, and rows
whose projections differ in literals only are built together; the literals are looked up by the
number of the route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import PlanError, SqlError
from parser.types import BIGINT, Column, Schema
from planner.graph.chunked import Chunked
from planner.graph.predicates import to_rule
from planner.graph.rule_sets import PlannedRule, RulesPlan
from planner.scalar import COMPARISONS, Call, Scalar, columns_of, find_position, walk
from rules.columns import Columns
from rules.condition import Condition
from rules.ruleset import Matches, RuleSet
from sqlengine.batch import Batch, Writers, concat, replaced
from sqlengine.expressions import Evaluator, compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.templates import PlacedRoute, Template, place

Index: TypeAlias = npt.NDArray[np.int64]
_NO_ROWS: Index = np.empty(0, np.int64)
# So few rules, and pairs of a row and a rule, are evaluated one by one, if their conditions have
# nothing but these: a set of rules takes several times as long for them.
_FEW_RULES, _FEW_PAIRS = 4, 16
_PLAIN: Final = COMPARISONS | {"AND", "OR", "NOT", "IS NULL", "IS NOT NULL"}


@dataclass(frozen=True)
class Residual:
    """The part of a condition that the rule set does not index, and the columns that it reads."""

    expression: Scalar
    reads: tuple[str, ...]


@dataclass(frozen=True)
class CompiledRule:
    """The residual condition of a rule, and the routes of the rows that match."""

    residual: Residual | None
    routes: tuple[PlacedRoute, ...]


@dataclass(frozen=True)
class CompiledRules:
    """A rule set ready to run; immutable.

    The next version is built from this one while the stream goes on. `compiled` is the number of
    rules that were not taken over from the previous version.
    """

    plan: RulesPlan
    ruleset: RuleSet
    rules: Chunked[CompiledRule]
    compiled: int


def compile_rules(
    plan: RulesPlan, ruleset: RuleSet, previous: CompiledRules | None = None
) -> CompiledRules:
    """Compiles the difference to `previous`, or everything into `ruleset`. SqlError for a condition
    that cannot be compiled."""
    known: Chunked[PlannedRule] = previous.plan.rules if previous else Chunked()
    compiled: Chunked[CompiledRule] = previous.rules if previous else Chunked()
    conditions, rules = {}, {}
    changed = sorted(plan.rules.difference(known))
    for name in changed:
        rule, old = plan.rules.get(name), compiled.get(name)
        if rule is None:
            continue
        if old is None:
            conditions[name], residual = _split(rule.predicate)
        rules[name] = CompiledRule(
            old.residual if old else residual, tuple(map(place, rule.routes))
        )
    removed = [name for name in changed if name not in plan.rules]
    base = previous.ruleset if previous else ruleset
    try:
        base = base.change(conditions, removed) if conditions or removed else base
    except SqlError as error:
        raise _in_statement(
            error, {name: plan.rules[name].predicate for name in conditions}
        ) from None
    return CompiledRules(plan, base, compiled.changed(rules, removed), len(rules))


def _split(predicate: Scalar) -> tuple[Condition, Residual | None]:
    rule = to_rule(predicate)
    if rule.residual is None:
        return rule.condition, None
    return rule.condition, Residual(rule.residual, tuple(sorted(columns_of(rule.residual))))


def _in_statement(error: SqlError, predicates: Mapping[str, Scalar]) -> SqlError:
    """Moves the position of an error from the rule's id to its place in the job's text."""
    for name, predicate in predicates.items():
        if error.hint == f"the rule is '{name}'":
            hint = f"the condition is {str(predicate)[:200]}"
            return PlanError(
                error.message, detail=error.detail, hint=hint, position=find_position(predicate)
            )
    return error


class TickFilter(Protocol):
    """Knows which ports of a set of rules need a tick."""

    def ports(self, batch: Batch, having_rows: Collection[int]) -> Sequence[int]:
        """Returns the ports by which a batch goes on, ascending: those for which it has rows, and
        those that need its tick."""


class RulesOperator:
    """Evaluates all filters over one input; stateless.

    It has a port for each sink of `plan.targets`, with its rows ordered by event and then by (job,
    place), a port for each rule of `plan.onward`, whose rows go to other operators, and one for
    each family (`family_ports`); both also get a tick when no row matched, but for those that do
    not need it (`ticks`, None: all do).
    """

    def __init__(self, compiled: CompiledRules) -> None:
        self.compiled = compiled
        self.rows_by_job: Counter[str] = Counter()
        # By rule, the rows whose residual condition was evaluated, and those for its family.
        self.tested: Counter[str] = Counter()
        self.ticks: TickFilter | None = None
        self.passed: Counter[str] = Counter()
        self._plain = _plain_conditions(compiled.plan)
        of_rules = compiled.plan.members.values()
        self.family_ports = frozenset(port for places in of_rules for port, _ in places)

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._charge = context.charge

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return self._onward(batch, {})
        output: Output = []
        rows_of = self._match(batch, output)
        self._sinks(batch, rows_of, output)
        return output + self._onward(batch, rows_of)

    def _match(self, batch: Batch, output: Output) -> dict[str, Index]:
        """Returns the matching rows of each rule that has any, ascending."""
        if self._plain and batch.num_rows * len(self._plain) <= _FEW_PAIRS:
            found = ((n, truth(compute(batch), batch.num_rows)) for n, compute in self._plain)
            return {name: true.nonzero()[0] for name, true in found if true.any()}
        ruleset = self.compiled.ruleset
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        matches = ruleset.match(Columns(arrays, batch.memo), batch.num_rows)
        self._timeouts(batch, matches, output)
        order = np.argsort(matches.rules, kind="stable")
        numbers, starts = np.unique(matches.rules[order], return_index=True)
        parts = np.split(matches.rows[order].astype(np.int64), starts[1:])
        matched = (
            {str(ruleset.ids[n]): rows for n, rows in zip(numbers, parts, strict=True)}
            if len(numbers)
            else {}
        )
        return self._residuals(batch, matched, output)

    def _timeouts(self, batch: Batch, matches: Matches, output: Output) -> None:
        """Emits rows for which a regular expression took too long; jobs whose expression was
        disabled must stop."""
        failed: dict[str, list[tuple[int, str]]] = {}
        for row, name, reason in matches.errors:
            failed.setdefault(name, []).append((row, reason))
        for name, rows in failed.items():
            rule = self.compiled.plan.rules[name]
            numbers, reasons = np.array([r for r, _ in rows]), [reason for _, reason in rows]
            self._fail(batch, numbers, name, rule.predicate, reasons, output)
            if name in matches.given_up:
                output += [
                    (FATAL_ERROR_PORT, letters) for _, letters in output[-len(rule.owners) :]
                ]

    def _residuals(
        self, batch: Batch, matched: dict[str, Index], output: Output
    ) -> dict[str, Index]:
        for name in sorted(matched):
            residual, rows = self.compiled.rules[name].residual, matched[name]
            if residual is None:
                continue
            self._charge(frozenset(self.compiled.plan.rules[name].owners))
            part = batch if len(rows) == batch.num_rows else batch.take(rows, residual.reads)
            vector = compile_expression(residual.expression)(part)
            self._counters["residual_rows"] += len(rows)
            self.tested[name] += len(rows)
            if vector.errors is not None:
                bad = np.flatnonzero(vector.errors.mask)
                reasons = [vector.errors.reason(int(i)) for i in bad]
                self._fail(batch, rows[bad], name, residual.expression, reasons, output)
            matched[name] = rows[truth(vector, part.num_rows)]
        self._charge(frozenset())
        return {name: rows for name, rows in matched.items() if len(rows)}

    def _sinks(self, batch: Batch, rows_of: Mapping[str, Index], output: Output) -> None:
        routes = [
            (route, rows)
            for name, rows in rows_of.items()
            for route in self.compiled.rules[name].routes
        ]
        if not routes:
            return
        routes.sort(key=lambda r: r[0].order)
        for placed, rows in routes:
            self.rows_by_job[placed.route.job] += len(rows)
        if len(routes) == 1:
            self._one_route(batch, *routes[0], output)
            return
        numbers = np.repeat(np.arange(len(routes)), [len(rows) for _, rows in routes])
        rows = np.concatenate([rows for _, rows in routes])
        # By event, then by route in the order of (job, place, rule): the order of the sink's rows.
        order = np.lexsort((numbers, rows))
        numbers, rows = numbers[order], rows[order]
        by_target: dict[str, list[tuple[Index, Batch]]] = {}
        for template, members in _by_template([placed for placed, _ in routes]):
            # A route's place among the routes of its template, by the number of the route: -1 for
            # the routes of other templates.
            place_in = np.full(len(routes), -1)
            place_in[members] = np.arange(len(members))
            chosen = np.flatnonzero(place_in[numbers] >= 0)
            own = [routes[m][0] for m in members]
            built, kept = self._build(batch, rows[chosen], own, place_in[numbers[chosen]], output)
            by_target.setdefault(template.target, []).append((chosen[kept], built))
        targets, jobs = self.compiled.plan.targets, tuple(placed.route.job for placed, _ in routes)
        for name, parts in by_target.items():
            places, merged = _interleave(parts)
            writers = Writers(jobs, numbers[places])
            output.append((targets[name].port, replaced(merged, writers=writers)))

    def _one_route(self, batch: Batch, placed: PlacedRoute, rows: Index, output: Output) -> None:
        """Emits the rows of a route, where there is no other."""
        built, kept = self._build(batch, rows, [placed], np.zeros(len(rows), np.int64), output)
        writers = Writers((placed.route.job,), np.zeros(len(kept), np.int64))
        port = self.compiled.plan.targets[placed.template.target].port
        output.append((port, replaced(built, writers=writers)))

    def _build(
        self, batch: Batch, rows: Index, routes: Sequence[PlacedRoute], which: Index, output: Output
    ) -> tuple[Batch, Index]:
        self._charge(frozenset(placed.route.job for placed in routes))
        built, errors = routes[0].template.build(batch, rows, routes, which)
        self._charge(frozenset())
        if errors is None:
            return built, np.arange(len(rows))
        for i in np.flatnonzero(errors.mask):
            route = routes[which[i]].route
            text = ", ".join(str(e) for _, e in route.items)
            self._letter(
                batch,
                rows[i : i + 1],
                route.job,
                route.items[0][1],
                text,
                [errors.reason(int(i))],
                output,
            )
        kept = np.flatnonzero(~errors.mask)
        return built.take(kept), kept

    def _onward(self, batch: Batch, rows_of: Mapping[str, Index]) -> Output:
        """Returns the rows for other operators, and ticks for those that have none and need one."""
        onward, of_families = self.compiled.plan.onward, self._of_families(rows_of)
        numbers = self.compiled.plan.numbers
        of_port = {onward[name]: rows for name, rows in rows_of.items() if name in onward}
        having_rows = of_port.keys() | of_families.keys()
        if self.ticks is None:
            ports: Sequence[int] = [*onward.values(), *sorted(self.family_ports)]
        else:
            ports = self.ticks.ports(batch, having_rows)
            withheld = len(onward) + len(self.family_ports) - len(ports)
            self._counters["ticks_withheld"] += withheld
        tick = _selected(batch, _NO_ROWS) if len(ports) > len(having_rows) else batch
        return [
            (p, _numbered(batch, of_families.get(p, ()), numbers[p]))
            if p in self.family_ports
            else (p, _selected(batch, of_port[p]) if p in of_port else tick)
            for p in ports
        ]

    def _of_families(self, rows_of: Mapping[str, Index]) -> dict[int, list[tuple[int, Index]]]:
        """Returns the rows of each family that has any, by its port: those of each member, by its
        number."""
        members = self.compiled.plan.members
        found: dict[int, list[tuple[int, Index]]] = {}
        for name, rows in rows_of.items() if members else ():
            if name in members:
                self.passed[name] += len(rows)
            for port, number in members.get(name, ()):
                found.setdefault(port, []).append((number, rows))
        return found

    def _fail(
        self,
        batch: Batch,
        rows: Index,
        rule: str,
        at: Scalar,
        reasons: Sequence[str],
        output: Output,
    ) -> None:
        for job in sorted(self.compiled.plan.rules[rule].owners):
            self._letter(batch, rows, job, at, str(at), reasons, output)

    def _letter(
        self,
        batch: Batch,
        rows: Index,
        job: str,
        at: Scalar,
        text: str,
        reasons: Sequence[str],
        output: Output,
    ) -> None:
        self._counters["rows_in_error"] += len(rows)
        place = str(find_position(at) or "")
        letters = dead_letters(
            batch.take(rows), owner=job, place=place, subject=text, reason=list(reasons)
        )
        output.append((ERROR_PORT, letters))

    def close(self) -> None: ...


def _plain_conditions(plan: RulesPlan) -> list[tuple[str, Evaluator]]:
    """Returns the conditions of few rules, by their names in order; none if one is not plain."""
    if len(plan.rules) > _FEW_RULES:
        return []
    rules = sorted(plan.rules.items())
    calls = (part for _, rule in rules for part in walk(rule.predicate) if isinstance(part, Call))
    if not all(call.function in _PLAIN for call in calls):
        return []
    return [(name, compile_expression(rule.predicate)) for name, rule in rules]


def _selected(batch: Batch, rows: Index) -> Batch:
    """Returns these rows, ascending; the watermark after the batch stays."""
    if len(rows) == batch.num_rows:
        return batch
    return replaced(batch.take(rows), watermark=batch.watermark)


def _numbered(batch: Batch, matches: Sequence[tuple[int, Index]], name: str) -> Batch:
    """Returns the rows of members, given by their numbers, which are the column `name`."""
    rows = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in matches)])
    numbers = np.repeat(
        np.array([number for number, _ in matches], np.int64), [len(rows) for _, rows in matches]
    )
    order = np.argsort(rows, kind="stable")
    return with_numbers(batch, rows[order], numbers[order], name)


def with_numbers(batch: Batch, rows: Index, numbers: Index, name: str) -> Batch:
    """Returns rows of a batch, with a number for each in the column `name`; the watermark after the
    batch stays."""
    taken = batch.take(rows)
    schema = Schema((Column(name, BIGINT.with_nullable(False)), *batch.schema))
    columns = (pa.array(numbers), *taken.columns)
    return replaced(taken.with_columns(schema, columns), watermark=batch.watermark)


def _by_template(routes: Sequence[PlacedRoute]) -> Iterable[tuple[Template, list[int]]]:
    """Groups the numbers of routes by template."""
    members: dict[str, list[int]] = {}
    for number, placed in enumerate(routes):
        members.setdefault(placed.template.shape, []).append(number)
    return [(routes[numbers[0]].template, numbers) for numbers in members.values()]


def _interleave(parts: Sequence[tuple[Index, Batch]]) -> tuple[Index, Batch]:
    """Merges the rows of several templates for one sink, in their common order; returns their
    places in it, too."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate([places for places, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], concat([b for _, b in parts]).take(order)
