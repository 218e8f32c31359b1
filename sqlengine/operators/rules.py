"""All filters over one input as one set of rules, and the projections behind them as templates.

Nothing here costs in proportion to the number of rules: the set finds the (row, rule) pairs, and rows whose
projections differ in literals only are built together, a literal being a column looked up by the rule's number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from parser.errors import PlanError, SqlError
from planner.physical import RulesPlan
from planner.predicates import to_rule
from planner.scalar import Scalar, columns_of, find_position
from rules.columns import Columns
from rules.ruleset import Matches, RuleSet
from sqlengine.batch import Batch, concat
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, GIVE_UP_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.templates import Template, build_templates

Index: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Residual:
    """What must be TRUE of a row besides the indexed condition, and the columns that it reads."""

    expression: Scalar
    reads: tuple[str, ...]


@dataclass(frozen=True)
class CompiledRules:
    """A set of rules ready to run, immutable: the next version is made beside the stream from this one.

    `residuals` by rule, for those that have one. `templates` build the rows for sinks;
    `template_of`, `slot_of` and `rank_of` lead from a route to its template, its place there, and its order."""

    plan: RulesPlan
    ruleset: RuleSet
    residuals: Mapping[str, Residual]
    templates: tuple[Template, ...]
    routes_of: Mapping[str, Sequence[int]]
    template_of: Index
    slot_of: Index


def compile_rules(plan: RulesPlan, ruleset: RuleSet, previous: CompiledRules | None = None) -> CompiledRules:
    """Compiles the difference to `previous` (or everything, into `ruleset`)."""
    known = previous.plan.predicates if previous else {}
    residuals = {i: r for i, r in previous.residuals.items() if i in plan.predicates} if previous else {}
    added = {}
    for name, predicate in plan.predicates.items():
        if name not in known:
            rule = to_rule(predicate)
            added[name] = rule.condition
            if rule.residual is not None:
                residuals[name] = Residual(rule.residual, tuple(sorted(columns_of(rule.residual))))
    removed = [i for i in known if i not in plan.predicates]
    base = previous.ruleset if previous else ruleset
    try:
        changed = base.change(added, removed) if added or removed else base
    except SqlError as error:
        raise _in_statement(error, plan.predicates) from None
    templates, template_of, slot_of = build_templates(plan)
    routes_of: dict[str, list[int]] = {}
    for number, route in enumerate(plan.routes):
        routes_of.setdefault(route.rule, []).append(number)
    return CompiledRules(plan, changed, residuals, templates, routes_of, template_of, slot_of)


def _in_statement(error: SqlError, predicates: Mapping[str, Scalar]) -> SqlError:
    """What is wrong with a rule, at its place in the job's text instead of under the rule's id."""
    for name, predicate in predicates.items():
        if error.hint == f"the rule is '{name}'":
            hint = f"the condition is {str(predicate)[:200]}"
            return PlanError(error.message, detail=error.detail, hint=hint, position=find_position(predicate))
    return error


class RulesOperator:
    """Output port i: rows for sink `plan.targets[i]`, ordered by event and then by (job, place). Behind these ports,
    one for each rule whose rows go on to other operators, which also get a tick when no row matched."""

    def __init__(self, compiled: CompiledRules) -> None:
        self.compiled = compiled
        self.rows_by_job: Counter[str] = Counter()

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return self._raw(batch, {})
        output: Output = []
        rows_of = self._match(batch, output)
        self._sinks(batch, rows_of, output)
        return output + self._raw(batch, rows_of)

    def _match(self, batch: Batch, output: Output) -> dict[str, Index]:
        """The rows of each rule that has any, ascending."""
        ruleset = self.compiled.ruleset
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        matches = ruleset.match(Columns(arrays, batch.memo), batch.num_rows)
        self._unanswered(batch, matches, output)
        order = np.argsort(matches.rules, kind="stable")
        numbers, starts = np.unique(matches.rules[order], return_index=True)
        parts = np.split(matches.rows[order].astype(np.int64), starts[1:])
        found = {str(ruleset.ids[n]): rows for n, rows in zip(numbers, parts, strict=True)} if len(numbers) else {}
        return self._residuals(batch, found, output)

    def _unanswered(self, batch: Batch, matches: Matches, output: Output) -> None:
        """Rows that a regular expression took too long for; the jobs of one that was given up cannot go on."""
        failed: dict[str, list[tuple[int, str]]] = {}
        for row, name, reason in matches.errors:
            failed.setdefault(name, []).append((row, reason))
        for name, rows in failed.items():
            plan = self.compiled.plan
            numbers, reasons = np.array([r for r, _ in rows]), [reason for _, reason in rows]
            self._fail(batch, numbers, name, plan.predicates[name], reasons, output)
            if name in matches.given_up:
                output += [(GIVE_UP_PORT, letters) for _, letters in output[-len(plan.owners[name]) :]]

    def _residuals(self, batch: Batch, found: dict[str, Index], output: Output) -> dict[str, Index]:
        for name in sorted(found.keys() & self.compiled.residuals.keys()):
            residual, rows = self.compiled.residuals[name], found[name]
            part = batch if len(rows) == batch.num_rows else batch.take(rows, residual.reads)
            vector = compile_expression(residual.expression)(part)
            self._counters["residual_rows"] += len(rows)
            if vector.errors is not None:
                bad = np.flatnonzero(vector.errors.mask)
                reasons = [vector.errors.reason(int(i)) for i in bad]
                self._fail(batch, rows[bad], name, residual.expression, reasons, output)
            found[name] = rows[truth(vector, part.num_rows)]
        return {name: rows for name, rows in found.items() if len(rows)}

    def _sinks(self, batch: Batch, rows_of: Mapping[str, Index], output: Output) -> None:
        routes = [(number, rows_of[n]) for n in rows_of for number in self.compiled.routes_of.get(n, ())]
        if not routes:
            return
        numbers = np.repeat([n for n, _ in routes], [len(r) for _, r in routes])
        rows = np.concatenate([r for _, r in routes])
        order = np.lexsort((numbers, rows))
        self._count(numbers)
        by_target: dict[int, list[tuple[Index, Batch]]] = {}
        numbers, rows = numbers[order], rows[order]
        templates = self.compiled.template_of[numbers]
        for t in np.unique(templates):
            chosen = np.flatnonzero(templates == t)
            template = self.compiled.templates[t]
            built, kept = self._build(batch, template, rows[chosen], numbers[chosen], output)
            by_target.setdefault(template.target, []).append((chosen[kept], built))
        output += [(target, _interleave(parts)) for target, parts in sorted(by_target.items())]

    def _build(
        self, batch: Batch, template: Template, rows: Index, numbers: Index, output: Output
    ) -> tuple[Batch, Index]:
        built, errors = template.build(batch, rows, self.compiled.slot_of[numbers])
        if errors is None:
            return built, np.arange(len(rows))
        routes = self.compiled.plan.routes
        for i in np.flatnonzero(errors.mask):
            route = routes[numbers[i]]
            text = ", ".join(str(e) for _, e in route.items)
            self._letter(batch, rows[i : i + 1], route.job, route.items[0][1], text, [errors.reason(int(i))], output)
        kept = np.flatnonzero(~errors.mask)
        return built.take(kept), kept

    def _count(self, numbers: Index) -> None:
        routes = self.compiled.plan.routes
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            self.rows_by_job[routes[number].job] += int(count)

    def _raw(self, batch: Batch, rows_of: Mapping[str, Index]) -> Output:
        first = len(self.compiled.plan.targets)
        none = np.empty(0, np.int64)
        return [
            (first + i, replace(batch.take(rows_of.get(name, none)), watermark=batch.watermark))
            for i, name in enumerate(self.compiled.plan.raw)
        ]

    def _fail(self, batch: Batch, rows: Index, rule: str, at: Scalar, reasons: Sequence[str], output: Output) -> None:
        for job in sorted(self.compiled.plan.owners[rule]):
            self._letter(batch, rows, job, at, str(at), reasons, output)

    def _letter(
        self, batch: Batch, rows: Index, job: str, at: Scalar, text: str, reasons: Sequence[str], output: Output
    ) -> None:
        self._counters["rows_in_error"] += len(rows)
        place, count = str(find_position(at) or ""), len(rows)
        letters = dead_letters(
            batch.take(rows), owner=[job] * count, place=[place] * count, subject=[text] * count, reason=list(reasons)
        )
        output.append((ERROR_PORT, letters))

    def close(self) -> None: ...


def _interleave(parts: Sequence[tuple[Index, Batch]]) -> Batch:
    """Rows of several templates for one sink in their common order."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([places for places, _ in parts]), kind="stable")
    return concat([b for _, b in parts]).take(order)
