"""`sql why`: the conditions of a rule with the values that they see in an event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from parser.errors import JobError
from sqlengine.cli.messages import show_error
from sqlengine.cli.options import define_option, server_options
from sqlengine.cli.rules.collected import collected
from sqlengine.cli.rules.lineage import explain_alert, show_lineage
from sqlengine.cli.rules.records import check_record, job_texts_at, place_of
from sqlengine.cli.texts import Texts, is_file, job_texts, named_below_tables, tables_above
from sqlengine.cli.waiting import connect

if TYPE_CHECKING:
    from planner.catalog import Table
    from sqlengine.trial.events import Event
    from sqlengine.trial.explaining import Verdict, Why
    from sqlengine.trial.rules import TrialRule


@click.command(short_help="Say why a rule fires for an event, or does not.")
@click.argument("rule", metavar="[FILE|JOB]", required=False)
@click.argument("event", metavar="[EVENT]", required=False)
@click.option("--table", help="The table that the event is of, where the rule reads several.")
@click.option("--alert", metavar="TOPIC@OFFSET", help="Name the events behind this alert instead.")
@click.option("--rule", "written_by", metavar="FILE|JOB", help="With --alert: who has written it.")
@click.option(
    "--limit", default=1_000_000, show_default=True, type=click.IntRange(1),
    help="Read so many records of the rule's topics at most.",
)
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Look for so long at most.",
)
@define_option
@server_options
@click.pass_context
def why(
    ctx: click.Context,
    rule: str | None,
    event: str | None,
    table: str | None,
    alert: str | None,
    written_by: str | None,
    limit: int,
    seconds: float,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Say why a rule fires for an event, or does not: each condition with the values that it sees.

    The rule is a file, or a job of the server; the event an object of JSON, '{"host": "a"}', or a
    record of a topic, TOPIC@OFFSET or TOPIC:SHARD@OFFSET. The exit code is 1 if nothing fires.

    With --alert TOPIC@OFFSET it names the events behind an alert: those without which the rule
    would not have given it. The rule is found by the alert, unless it is named."""
    client = connect(server, token_file)
    if alert is not None:
        if event is not None or (rule is not None and written_by is not None):
            raise click.UsageError("--alert goes with a rule alone")
        found = explain_alert(client, rule or written_by, alert, define, (limit, seconds))
        show_lineage(alert, found, output)
        return
    if rule is None or event is None or written_by is not None:
        raise click.UsageError("give a rule and an event, or --alert TOPIC@OFFSET")
    text = event if event.lstrip().startswith("{") else check_record(client, place_of(event))
    if is_file(rule):
        texts = named_below_tables(job_texts([rule], None, define))
        above = tables_above([rule], define)
    else:
        texts, above, _ = job_texts_at(client, rule, None)
    fires = _answer(texts, above, text, table, output, exact=text == event)
    ctx.exit(0 if fires else 1)


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
