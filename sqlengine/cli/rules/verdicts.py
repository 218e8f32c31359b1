"""Shows why a rule fires for an event, or does not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.trial.explaining import Filtered, State, Verdict, Why


def show_why(name: str, answer: Why) -> None:
    """Shows the way of an event through a rule, for people."""
    from sqlengine.trial.explaining import State

    fires = any(answer.alerts.values())
    held = "would fire, but its alert is held back" if answer.held_back else "does not fire"
    click.echo(f"{name} {'fires' if fires else held}")
    for reason in answer.held_back:
        click.echo(f"held back by {reason}")
    filters, states = itertools.count(1), itertools.count(1)
    for step in answer.steps:
        if isinstance(step, State):
            lines = _state_lines(next(states), step)
        else:
            lines = _filter_lines(next(filters), step)
        for line in lines:
            click.echo(line)
    failing = [v for step in answer.steps for row in step.verdicts for v in row.failing()]
    if not fires and failing and not answer.held_back:
        click.echo("it would need:")
        for verdict in failing:
            click.echo(f"  {verdict.text}{_seen(verdict)}")
    for table, rows in answer.alerts.items():
        for alert in rows:
            click.echo(f"{table}: {_json(alert)}")
    for note in answer.notes:
        click.echo(note, err=True)


def _filter_lines(number: int, found: Filtered) -> Iterator[str]:
    yield f"filter {number}" + ("" if found.rows else ": no row reaches it")
    for row in found.rows:
        yield from _lines(row, 1)


def _state_lines(number: int, state: State) -> Iterator[str]:
    under = ", ".join(f"{n} = {_json(v)}" for n, v in state.key.items())
    yield f"state {number}: {state.operation}" + ("" if state.came else ": no row reaches it")
    if not state.came:
        return
    if under:
        yield f"  under {under}"
    if state.others is not None:
        yield f"  {count(state.others, 'row')} of the other side"
    if state.matched is not None:
        left = state.pattern[len(state.matched) :]
        yield f"  matched {' '.join(state.matched) or 'nothing'}" + (
            f", not yet {' '.join(left)}" if left else ""
        )
    for verdict in state.conditions:
        yield from _lines(verdict, 1)
    yield from (f"  gives {_json(row)}" for row in state.gave)
    yield from (f"  instead of {_json(row)}" for row in state.instead_of)
    if not state.gave and not state.instead_of:
        yield "  gives nothing because of it"
    if state.ahead is not None:
        yield f"  it may have been late: a row of {state.ahead} had come before"


def _lines(verdict: Verdict, depth: int) -> Iterator[str]:
    word = {True: "TRUE", False: "FALSE", None: "NULL"}[verdict.value]
    yield f"{'  ' * depth}{word:5}  {verdict.text}{_seen(verdict)}"
    for part in verdict.parts:
        yield from _lines(part, depth + 1)


def _seen(verdict: Verdict) -> str:
    """Returns the values that a condition saw, as they stand behind it."""
    shown = (f"{n} = {_json(v)}" for n, v in verdict.columns.items())
    return f"   [{', '.join(shown)}]" if verdict.columns else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def show_why_json(name: str, answer: Why) -> None:
    """Shows the same for programs."""
    body = {
        "rule": name,
        "fires": any(answer.alerts.values()),
        "filters": [asdict(found) for found in answer.filters],
        **asdict(answer),
    }
    click.echo(_json(body))
