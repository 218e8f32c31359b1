"""For random events: the lineage of an alert alone gives it again, and with any event less it does
not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from planner.logical import Sink
from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch, IntArray
from sqlengine.trial.bench import Bench, open_bench
from sqlengine.trial.collecting import RuleText, collect
from sqlengine.trial.events import BEGIN_MS, batch_of, event_of
from sqlengine.trial.minimal import minimal
from sqlengine.trial.recorded import History, Recorded, in_order
from sqlengine.trial.reproducing import Reproduction, row_by_row
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.wanted import rows_that
from sqlengine.trial.watermarks import event_times, with_leaders
from tests.life.test_lineage import CASES, login

UNTIL = BEGIN_MS + 86_400_000
LOGIN = st.builds(
    login, st.integers(0, 240), st.sampled_from("ab"), st.sampled_from("xy"), ok=st.booleans()
)
NAMES = [name for name, case in CASES.items() if not case.owners]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with open_bench() as bench:
        yield bench


def planned(name: str) -> TrialRule:
    done = collect([RuleText(name, None, CASES[name].text(name))], [], None, frozenset((name,)))
    assert not done.broken, done.broken
    return done.rules[name]


RULES = {name: planned(name) for name in NAMES}


def recorded(rule: TrialRule, rows: Sequence[tuple[str, dict[str, object]]]) -> list[Recorded]:
    """Rows of the tables of a rule, as if they had come a second after each other."""
    found = []
    for table in rule.reads:
        mine = [at for at, (name, _) in enumerate(rows) if name == table.display]
        if not mine:
            continue
        columns = {c.name for c in table.physical}
        events = [
            event_of(table, {k: v for k, v in rows[at][1].items() if k in columns}, BEGIN_MS)
            for at in mine
        ]
        numbers = np.array(mine)
        times = numbers * 1000 + BEGIN_MS
        none = np.zeros(len(mine), np.int64)
        found.append(
            Recorded(table, table.display, batch_of(events), none, numbers, times, numbers)
        )
    return found


def alerts(bench: Bench, rule: TrialRule, sink: Sink, history: History) -> list[Batch]:
    found: list[Batch] = []

    def take(batch: Batch) -> None:
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        for at in range(batch.num_rows):
            if kinds[at] in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                row = batch.take(np.array([at]))
                found.append(Batch(row.schema, row.columns, 1))

    plan = Sink(row_by_row(sink.input), None, "r")
    tables = [r.table for r in history.records]
    portions = history.portions(timed=True)
    bench.run_portions([plan], rule.settings, portions, tables, UNTIL, take)
    return found


def wanted_of(made: Reproduction, rows: Recorded) -> IntArray:
    times = event_times(rows.table, rows.rows)
    chosen = rows_that(made.wanted[rows.table.name], rows.rows)
    return chosen if times is None else with_leaders(chosen, times)


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(("logins", "logins", "resets")), LOGIN), min_size=5, max_size=16
    ),
    choice=st.integers(0, 1000),
)
@pytest.mark.parametrize("name", NAMES)
def test_the_lineage_is_enough_and_needed(
    bench: Bench, name: str, rows: list[tuple[str, dict[str, object]]], choice: int
) -> None:
    rule = RULES[name]
    (sink,) = rule.sinks
    history = in_order([], recorded(rule, rows))
    found = alerts(bench, rule, sink, history)
    assume(found)
    made = Reproduction(bench, rule, sink, found[choice % len(found)], UNTIL)
    kept = [r.take(wanted_of(made, r)) for r in history.records]
    wanted = in_order([], kept)
    assert made.possible
    again = made.found_in(wanted)
    assert again is not None
    made = again
    chosen, sure = minimal(
        len(wanted), lambda some: made.suffices(wanted.take(some)), lambda _: True
    )
    assert sure
    lineage = wanted.take(chosen)
    assert made.suffices(lineage)
    for at in range(len(lineage)):
        assert not made.suffices(lineage.take(np.delete(np.arange(len(lineage)), at)))
