"""`sql why`: the conditions of a rule with the values that they see in an event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parser.errors import JobError
from sqlengine.cli.messages import show_error
from sqlengine.cli.options import define_option, server_options
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.rules.collected import collected
from sqlengine.cli.texts import Texts, job_texts, tables_above
from sqlengine.cli.waiting import connect
from sqlengine.client import Client, job_url
from sqlengine.control.scripts import SUFFIX

if TYPE_CHECKING:
    from planner.catalog import Table
    from sqlengine.trial.events import Event
    from sqlengine.trial.explaining import Verdict, Why
    from sqlengine.trial.rules import TrialRule


@click.command(short_help="Say why a rule fires for an event, or does not.")
@click.argument("rule", metavar="FILE|JOB")
@click.argument("event", metavar="EVENT")
@click.option("--table", help="The table that the event is of, where the rule reads several.")
@define_option
@server_options
@click.pass_context
def why(
    ctx: click.Context,
    rule: str,
    event: str,
    table: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Say why a rule fires for an event, or does not: each condition with the values that it sees.

    The rule is a file, or a job of the server; the event an object of JSON, '{"host": "a"}', or a
    record of a topic, TOPIC@OFFSET or TOPIC:SHARD@OFFSET. The exit code is 1 if nothing fires."""
    client = connect(server, token_file)
    text = event if event.lstrip().startswith("{") else _record(client, event)
    if rule.endswith(SUFFIX) or Path(rule).is_file():
        texts = job_texts([rule], None, define)
        above = tables_above([rule], define)
    else:
        texts, above = _texts_of(client, rule)
    fires = _answer(texts, above, text, table, output, exact=text == event)
    ctx.exit(0 if fires else 1)


def _record(client: Client, place: str) -> str:
    """Returns the value of a record. JobError for what names none."""
    topic, at, offset = place.rpartition("@")
    name, _, shard = topic.partition(":")
    if not at or not offset.isdigit() or not (shard or "0").isdigit():
        raise JobError(
            f"'{place}' is no event",
            hint='write an object of JSON, \'{"host": "a"}\', or a record as TOPIC@OFFSET',
        )
    body = client.get(
        f"/api/v1/topics/{name}/records", offset=int(offset), limit=1, shard=shard or "0"
    )
    found = [r for r in items_of(body, "records") if r["offset"] == int(offset)]
    if not found:
        raise JobError(f"topic '{name}' has no record at offset {offset} any more, or yet")
    return str(found[0]["value"])


def _texts_of(client: Client, name: str) -> tuple[Texts, Texts]:
    """Returns the text of a job, and those of the jobs that define what it needs."""
    jobs = {str(j["name"]): j for j in items_of(client.get("/api/v1/jobs"), "jobs")}
    text = str(client.get(job_url(name))["sql"])
    needed, waiting = dict[str, tuple[str | None, str]](), [name]
    while waiting:
        uses = _names(jobs.get(waiting.pop(), {}).get("uses"))
        for other, job in jobs.items():
            if other not in (*needed, name) and uses & _names(job["defines"]):
                needed[other] = None, str(client.get(job_url(other))["sql"])
                waiting.append(other)
    return {name: (None, text)}, needed


def _names(value: object) -> set[str]:
    return set(map(str, value)) if isinstance(value, list) else set()


def _answer(
    texts: Texts, above: Texts, event: str, table: str | None, output: str, *, exact: bool
) -> bool:
    """Shows the answer; True if the rule fires. `exact`: a field that is no column is an error."""
    (name,) = texts
    with collected(texts, above, texts) as (found, library):
        from sqlengine.trial.bench import open_bench
        from sqlengine.trial.explaining import why as explain

        for broken, error in found.broken.items():
            show_error(error, found.texts[broken].text)
        if name not in found.rules:
            return False
        rule = found.rules[name]
        library.activate(rule.functions)
        with open_bench() as bench:
            answer = explain(bench, rule, [_event(rule, event, table, exact=exact)])
    (_show_json if output == "json" else _show)(name, answer)
    return any(answer.alerts.values())


def _event(rule: TrialRule, text: str, name: str | None, *, exact: bool) -> Event:
    from sqlengine.trial.events import BEGIN_MS, event_of, row_schema

    table = _table(rule.streams if name is None else rule.reads, name)
    try:
        row = json.loads(text)
    except ValueError as error:
        raise JobError("the event is no JSON", detail=str(error)) from None
    if not isinstance(row, Mapping):
        raise JobError("the event is no object of JSON", hint='write \'{"host": "a"}\'')
    if not exact:  # as the table's format leaves out fields that are no columns
        row = {n: v for n, v in row.items() if n in row_schema(table).names}
    return event_of(table, row, BEGIN_MS)


def _table(tables: Sequence[Table], name: str | None) -> Table:
    found = [t for t in tables if name is None or name in (t.display, ".".join(t.name))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(t.display for t in tables)
    raise JobError(f"the rule reads {names or 'no table'}", hint="say which with --table NAME")


def _show(name: str, answer: Why) -> None:
    fires = any(answer.alerts.values())
    click.echo(f"{name} {'fires' if fires else 'does not fire'}")
    for number, found in enumerate(answer.filters, 1):
        click.echo(f"filter {number}" + ("" if found.rows else ": no row reaches it"))
        for row in found.rows:
            for line in _lines(row, 1):
                click.echo(line)
    failing = [v for found in answer.filters for row in found.rows for v in row.failing()]
    if not fires and failing:
        click.echo("it would need:")
        for verdict in failing:
            click.echo(f"  {verdict.text}{_seen(verdict)}")
    for table, rows in answer.alerts.items():
        for alert in rows:
            click.echo(f"{table}: {json.dumps(alert, ensure_ascii=False)}")
    if answer.stateful:
        what = ", ".join(answer.stateful)
        click.echo(f"its state is empty but for this event: {what}", err=True)


def _lines(verdict: Verdict, depth: int) -> Iterator[str]:
    word = {True: "TRUE", False: "FALSE", None: "NULL"}[verdict.value]
    yield f"{'  ' * depth}{word:5}  {verdict.text}{_seen(verdict)}"
    for part in verdict.parts:
        yield from _lines(part, depth + 1)


def _seen(verdict: Verdict) -> str:
    """Returns the values that a condition saw, as they stand behind it."""
    shown = (f"{n} = {json.dumps(v, ensure_ascii=False)}" for n, v in verdict.columns.items())
    return f"   [{', '.join(shown)}]" if verdict.columns else ""


def _show_json(name: str, answer: Why) -> None:
    body = {"rule": name, "fires": any(answer.alerts.values()), **asdict(answer)}
    click.echo(json.dumps(body, ensure_ascii=False))
