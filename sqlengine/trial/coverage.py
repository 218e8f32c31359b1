"""Coverage of a rule's conditions by its cases: which of them were TRUE and which not, and which
could be left out without any case failing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow.compute as pc

from parser.errors import SqlError
from planner.logical import Filter
from sqlengine.batch import Batch
from sqlengine.trial.bench import Bench
from sqlengine.trial.cases import CaseFile
from sqlengine.trial.conditions import Condition, conditions_of, values_of, without
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.testing import events_of, run_cases, until_of


@dataclass(frozen=True)
class Seen:
    """The numbers of rows of all cases for which a condition was TRUE, and for which it was not
    (FALSE, or unknown)."""

    condition: Condition
    true: int
    false: int


def seen(bench: Bench, rule: TrialRule, files: Sequence[CaseFile]) -> Iterator[Seen]:
    """Yields what the cases of a rule have seen of each condition of its filters."""
    filters = (c for c in conditions_of(rule.sinks) if isinstance(c.node, Filter))
    for _, group in groupby(filters, lambda c: (c.sink, c.node.digest)):
        conditions = list(group)
        counts = [[0, 0] for _ in conditions]

        def count(batch: Batch, counts: list[list[int]] = counts) -> None:
            for number, column in enumerate(batch.columns):
                true = pc.sum(column).as_py() or 0
                counts[number][0] += true
                counts[number][1] += batch.num_rows - true

        plan = values_of(conditions, rule.name)
        for file in files:
            for case in file.cases:
                with suppress(SqlError):  # the case itself says why it fails
                    events = events_of(rule, file, case)
                    bench.run([plan], rule.settings, events, until_of(case), count)
        for condition, (true, false) in zip(conditions, counts, strict=True):
            yield Seen(condition, true, false)


def idle_conditions(
    bench: Bench, rule: TrialRule, files: Sequence[CaseFile]
) -> Iterator[Condition]:
    """Yields conditions that no case needs: all pass without it."""
    for condition in conditions_of(rule.sinks):
        mutant = replace(rule, sinks=without(rule.sinks, condition))
        if all(outcome.passed for file in files for outcome in run_cases(bench, mutant, file)):
            yield condition
