"""Why a rule fires for an event, or does not, with all that it had read before: what each operation
with state met, and what it gave because of the event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.logical import Filter, HoldBack, LogicalPlan, MatchRecognize, Scan
from planner.logical.joins import BinaryJoin
from planner.logical.node import Stateful
from planner.logical.patterns import Skip
from planner.rewrite import conjunction, nodes
from planner.scalar import Scalar, columns_of, conjuncts_of
from planner.tables import Identifier
from planner.wording import named, words_of
from sqlengine.batch import Batch
from sqlengine.trial.events import Row, folded
from sqlengine.trial.explaining import (
    Filtered,
    State,
    Verdict,
    Why,
    judged,
    verdicts,
    whether_held,
    worded,
)
from sqlengine.trial.recorded import History
from sqlengine.trial.replayed import Change, Difference, Past
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.wanted import any_of, equalities, wanted_rows


def why_then(past: Past, rule: TrialRule) -> Why:
    """Returns what a rule made of an event, given all that it had read before; the steps are in the
    order in which rows pass them. SqlError for what fails a job."""
    found = {
        node.digest: node
        for sink in rule.sinks
        for node in reversed(list(nodes(sink)))
        if isinstance(node, Filter) or node.stateful
    }
    then = _Then(past)
    steps = tuple(then.step(node) for node in found.values())
    alerts: dict[str, Sequence[Row]] = {}
    for sink in rule.sinks:
        if sink.table is not None:
            given = then.difference(sink.input)
            rows = folded([c.pair for c in given.rows], sink.table.primary_key)
            alerts[sink.table.display] = [*alerts.get(sink.table.display, []), *rows]
    holding = [n for sink in rule.sinks for n in nodes(sink) if isinstance(n, HoldBack)]
    held = dict.fromkeys(node.reason for node in reversed(holding) if then.holds_back(node))
    return Why(steps, alerts, tuple(past.notes()), tuple(held))


class _Then:
    """The operations of a rule over what it had read when an event came."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._known: dict[str, History] = {}
        self._differences: dict[str, Difference] = {}

    def step(self, node: LogicalPlan) -> Filtered | State:
        """Returns what became of the event in an operation, in the words of the rule."""
        return worded(self._step(node), words_of(node))

    def _step(self, node: LogicalPlan) -> Filtered | State:
        if isinstance(node, Filter):
            return self._filtered(node)
        came = [[change.row for change in self._came(source)] for source in node.inputs]
        rows = tuple(row for port in came for row in port)
        if not rows:
            return State(named(node), {}, (), (), ())
        port = next(p for p, found in enumerate(came) if found)
        given = self.difference(node)
        idle = not given.rows and not given.instead_of
        late = isinstance(node, Stateful) and node.drops_late and idle
        state = State(
            named(node),
            {name: came[port][0].get(name) for name in node.exchange(port) or ()},
            rows,
            tuple(change.row for change in given.rows),
            tuple(change.row for change in given.instead_of),
            ahead=self._past.ahead(self.history(node)) if late else None,
        )
        if isinstance(node, BinaryJoin):
            return self._joined(node, port, state)
        return self._matched(node, state) if isinstance(node, MatchRecognize) else state

    def _filtered(self, node: Filter) -> Filtered:
        history = self.history(node.input)
        rows = [c.row for c in self._past.difference(judged(node), history).rows]
        return Filtered(str(node.predicate), verdicts(node.predicate, rows))

    def _joined(self, node: BinaryJoin, port: int, state: State) -> State:
        """A join with the number of rows of its other side, and with the conditions beside its
        keys for the rows that these bring together."""
        other, key = node.inputs[1 - port], list(state.key.values())
        names = node.keys(1 - port)
        changes = [c.pair for c in self._past.changes(other, self.history(node))]
        under = [r for r in folded(changes, ()) if [r.get(n) for n in names] == key]
        equal, others = node.conditions
        pairs: tuple[Verdict, ...] = ()
        if others and equal:
            same = [c for c in conjuncts_of(node.condition) if c not in others]
            loose = replace(node, condition=conjunction(same))
            judging = Filter(loose, conjunction(others))
            found = self._past.difference(judged(judging), self.history(node)).rows
            pairs = verdicts(judging.predicate, [change.row for change in found])
        return replace(state, others=len(under), conditions=pairs)

    def _matched(self, node: MatchRecognize, state: State) -> State:
        """A pattern with the part of it that the event completes, and its conditions."""
        names = tuple(item.variable for item in node.pattern)
        matched: tuple[str, ...] = ()
        for length in range(len(names), 0, -1):
            part = _prefix(node, length)
            if part is not None and self._past.difference(part, self.history(node)).rows:
                matched = names[:length]
                break
        conditions = tuple(
            replace(verdict, text=f"{variable} AS {verdict.text}")
            for variable, condition in node.conditions
            for verdict in self._judged_alone(node, condition)
        )
        return replace(state, matched=matched, pattern=names, conditions=conditions)

    def _judged_alone(self, node: MatchRecognize, condition: Scalar) -> tuple[Verdict, ...]:
        """A condition of a pattern for the event, if it is about that row alone."""
        if not columns_of(condition) <= set(node.input.schema.names):
            return ()
        judging = judged(Filter(node.input, condition))
        found = self._past.difference(judging, self.history(node.input)).rows
        return verdicts(condition, [change.row for change in found])

    def holds_back(self, node: HoldBack) -> bool:
        """Returns True if the event would have been an alert but for this node."""
        return any(change.row["held"] for change in self.difference(whether_held(node)).rows)

    # ---- what had been read ----------------------------------------------------------------------

    def difference(self, plan: LogicalPlan) -> Difference:
        """Returns what a plan gives because of the event."""
        if plan.digest not in self._differences:
            self._differences[plan.digest] = self._past.difference(plan, self.history(plan))
        return self._differences[plan.digest]

    def _came(self, source: LogicalPlan) -> Sequence[Change]:
        return self.difference(source).rows

    def history(self, plan: LogicalPlan) -> History:
        """Returns what was read that matters for what a plan makes of the event: under the keys of
        its operations with state those of the event."""
        if plan.digest not in self._known:
            self._known[plan.digest] = self._history(plan)
        return self._known[plan.digest]

    def _history(self, plan: LogicalPlan) -> History:
        first = next((n for n in nodes(plan) if n.stateful), None)
        said = None if first is None else self._conditions(first)
        if first is None or said is None:
            return self._past.event_alone
        wanted: dict[Identifier, list[Scalar | None]] = {}
        for source, conditions in zip(first.inputs, said, strict=True):
            for name, condition in wanted_rows(source, conditions).items():
                wanted.setdefault(name, []).append(condition)
        # What is read beside this operation, such as by another branch of a union.
        beside = {n.table.name for n in nodes(plan) if isinstance(n, Scan)} - wanted.keys()
        alone: dict[Identifier, list[Scalar | None]] = {name: [None] for name in beside}
        return self._past.rows({name: any_of(found) for name, found in (wanted | alone).items()})

    def _conditions(self, node: LogicalPlan) -> list[list[Scalar]] | None:
        """Returns, for each input of an operation, the conditions that a row is under a key of the
        event; None where the event does not reach it."""
        for port, source in enumerate(node.inputs):
            came = self._came(source)
            if came:
                keys = [node.exchange(p) or () for p in range(len(node.inputs))]
                row = came[0].alone
                columns = [row.column(name) for name in keys[port]]
                return [
                    equalities(Batch(node.inputs[p].schema.select(k), tuple(columns), 1), k)
                    for p, k in enumerate(keys)
                ]
        return None


def _prefix(node: MatchRecognize, length: int) -> MatchRecognize | None:
    """A pattern of the first items of another one; None where it means nothing alone."""
    items = node.pattern[:length]
    last = items[-1]
    if last.absent or not node.partition or not any(item.low for item in items):
        return None
    known = {item.variable for item in items}
    history = tuple(
        replace(v, variables=kept)
        for v in node.history
        if (kept := tuple(n for n in v.variables if n in known))
    )
    conditions = tuple((v, c) for v, c in node.conditions if v in known)
    names = {*node.input.schema.names, *(v.name for v in history)}
    if not all(columns_of(c) <= names for _, c in conditions):
        return None
    return replace(
        node,
        pattern=(*items[:-1], replace(last, greedy=False)),
        skip=Skip.NEXT,
        target=(),
        conditions=conditions,
        history=history,
        measures=(),
    )
