"""The rules operator: all filters over one input as one rule set, and the projections behind them.

The cost does not grow with the number of rules: the rule set finds the (row, rule) pairs, and rows
whose projections differ in literals only are built together; the literals are looked up by the
number of the route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from parser.errors import PlanError, SqlError
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
from sqlengine.operators.member_rows import (
    NO_MEMBERS,
    MemberRows,
    PortRows,
    rows_by_number,
    with_numbers,
)
from sqlengine.operators.routes import RouteTable
from sqlengine.operators.templates import PlacedRoute, place

Index: TypeAlias = npt.NDArray[np.int64]
_NO_ROWS: Index = np.empty(0, np.int64)
_NOBODY: Final[Mapping[str, int]] = MappingProxyType({})
# So few rules, and pairs of a row and a rule, are evaluated one by one, if their conditions have
# nothing but these: a set of rules takes several times as long for them.
_FEW_RULES, _FEW_PAIRS = 4, 16
# Of each so many batches some rows are kept, for who wants to measure conditions.
_SAMPLED, _SAMPLE_ROWS = 64, 256
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

    def is_plain(self, name: str) -> bool:
        """True if a rule has no residual condition, and its rows go to members of families
        alone."""
        rule = self.rules[name]
        return rule.residual is None and not rule.routes and name not in self.plan.onward


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
        # By rule, the rows whose residual condition was evaluated.
        self.tested: Counter[str] = Counter()
        self.ticks: TickFilter | None = None
        self.sample: Batch | None = None
        self._batches = 0
        self._members = MemberRows(compiled)
        self._plain = _plain_conditions(compiled.plan)
        of_rules = compiled.plan.members.values()
        self.family_ports = frozenset(port for places in of_rules for port, _ in places)

    @property
    def passed(self) -> Counter[str]:
        """The rows of each rule for its families."""
        return self._members.passed

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._charge = context.charge

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return self._onward(batch, {}, {})
        if self._batches % _SAMPLED == 0:
            self.sample = batch.take(np.arange(min(batch.num_rows, _SAMPLE_ROWS)))
        self._batches += 1
        output: Output = []
        rows_of, of_members = self._match(batch, output)
        self._sinks(batch, rows_of, output)
        return output + self._onward(batch, rows_of, of_members)

    def _match(self, batch: Batch, output: Output) -> tuple[dict[str, Index], PortRows]:
        """Returns the matching rows of each rule that has any, ascending, but for those that have
        nothing but rows of members: these by port."""
        if self._plain and batch.num_rows * len(self._plain) <= _FEW_PAIRS:
            found = ((n, truth(compute(batch), batch.num_rows)) for n, compute in self._plain)
            return {name: true.nonzero()[0] for name, true in found if true.any()}, {}
        ruleset = self.compiled.ruleset
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        matches = ruleset.match(Columns(arrays, batch.memo), batch.num_rows)
        self._timeouts(batch, matches, output)
        rows, rules, of_members = self._members.take(matches.rows.astype(np.int64), matches.rules)
        matched = {str(ruleset.ids[n]): part for n, part in rows_by_number(rows, rules)}
        return self._residuals(batch, matched, output), of_members

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
            self._charge(self._owners(name))
            part = batch if len(rows) == batch.num_rows else batch.take(rows, residual.reads)
            vector = compile_expression(residual.expression)(part)
            self._counters["residual_rows"] += len(rows)
            self.tested[name] += len(rows)
            if vector.errors is not None:
                bad = np.flatnonzero(vector.errors.mask)
                reasons = [vector.errors.reason(int(i)) for i in bad]
                self._fail(batch, rows[bad], name, residual.expression, reasons, output)
            matched[name] = rows[truth(vector, part.num_rows)]
        self._charge(_NOBODY)
        return {name: rows for name, rows in matched.items() if len(rows)}

    def _sinks(self, batch: Batch, rows_of: Mapping[str, Index], output: Output) -> None:
        routes = [(r, rows) for n, rows in rows_of.items() for r in self.compiled.rules[n].routes]
        if not routes:
            return
        routes.sort(key=lambda r: r[0].order)
        table, parts = RouteTable([r for r, _ in routes]), [rows for _, rows in routes]
        numbers = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        self._emit(batch, table, np.concatenate(parts), numbers, output)

    def _emit(
        self, batch: Batch, table: RouteTable, rows: Index, numbers: Index, output: Output
    ) -> None:
        """Emits rows by routes, given by number: by event, then by route in the order of (job,
        place, rule), which is that of the sink's rows."""
        of_jobs = Writers(table.jobs, numbers).rows_by_job()
        if table.counted is None:
            self.rows_by_job.update(of_jobs)
        else:
            counted = Writers(table.jobs, numbers[table.counted[numbers]])
            self.rows_by_job.update(counted.rows_by_job())
        if len(table.jobs) > 1:
            order = np.lexsort((numbers, rows))
            numbers, rows = numbers[order], rows[order]
        by_target: dict[str, list[tuple[Index, Batch]]] = {}
        for template, chosen in table.by_template(numbers):
            built, kept = self._build(batch, table, template, rows[chosen], numbers[chosen], output)
            target = table.template(template).target
            by_target.setdefault(target, []).append((chosen[kept], built))
        self._charge(of_jobs)
        for name, parts in by_target.items():
            places, merged = _interleave(parts)
            writers = Writers(table.jobs, numbers[places])
            port = self.compiled.plan.targets[name].port
            output.append((port, replaced(merged, writers=writers)))
        self._charge(_NOBODY)

    def _build(
        self,
        batch: Batch,
        table: RouteTable,
        template: int,
        rows: Index,
        numbers: Index,
        output: Output,
    ) -> tuple[Batch, Index]:
        self._charge(Writers(table.jobs, numbers).rows_by_job())
        built, errors = table.build(template, batch, rows, numbers)
        self._charge(_NOBODY)
        if errors is None:
            return built, np.arange(len(rows))
        for i in np.flatnonzero(errors.mask).tolist():
            route, reasons = table.placed[numbers[i]].route, [errors.reason(i)]
            text = ", ".join(str(e) for _, e in route.items)
            at = route.items[0][1]
            self._letter(batch, rows[i : i + 1], route.job, at, text, reasons, output)
        kept = np.flatnonzero(~errors.mask)
        return built.take(kept), kept

    def _onward(self, batch: Batch, rows_of: Mapping[str, Index], of_members: PortRows) -> Output:
        """Returns the rows for other operators, and ticks for those that have none and need one."""
        onward, numbers = self.compiled.plan.onward, self.compiled.plan.numbers
        of_families = self._members.with_others(of_members, rows_of)
        of_port = {
            onward[n]: self._rows_for(n, batch, rows) for n, rows in rows_of.items() if n in onward
        }
        self._charge(_NOBODY)
        having_rows = of_port.keys() | of_families.keys()
        if self.ticks is None:
            ports: Sequence[int] = [*onward.values(), *sorted(self.family_ports)]
        else:
            ports = self.ticks.ports(batch, having_rows)
            withheld = len(onward) + len(self.family_ports) - len(ports)
            self._counters["ticks_withheld"] += withheld
        tick = _selected(batch, _NO_ROWS) if len(ports) > len(having_rows) else batch
        return [
            (p, with_numbers(batch, *of_families.get(p, NO_MEMBERS), numbers[p]))
            if p in self.family_ports
            else (p, of_port.get(p, tick))
            for p in ports
        ]

    def _rows_for(self, rule: str, batch: Batch, rows: Index) -> Batch:
        """Returns the rows of a rule for other operators."""
        self._charge(self._owners(rule))
        return _selected(batch, rows)

    def _owners(self, rule: str) -> Mapping[str, int]:
        return dict.fromkeys(self.compiled.plan.rules[rule].owners, 1)

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


def _interleave(parts: Sequence[tuple[Index, Batch]]) -> tuple[Index, Batch]:
    """Merges the rows of several templates for one sink, in their common order; returns their
    places in it, too."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate([places for places, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], concat([b for _, b in parts]).take(order)
