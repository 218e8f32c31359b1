"""`sql why`: the conditions of a rule with the values that they see in an event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from parser.errors import JobError, SqlError
from sqlengine.cli.options import define_option, server_options
from sqlengine.cli.rules.collected import planned
from sqlengine.cli.rules.lineage import explain_alert, show_lineage
from sqlengine.cli.rules.records import (
    broker_of,
    check_record,
    job_texts_at,
    place_of,
    texts_of_file,
)
from sqlengine.cli.rules.verdicts import show_why, show_why_json
from sqlengine.cli.texts import Texts, is_file
from sqlengine.cli.waiting import at_work, connect
from sqlengine.client import Client

if TYPE_CHECKING:
    from planner.catalog import Table
    from sqlengine.trial.bench import Bench
    from sqlengine.trial.events import Event
    from sqlengine.trial.explaining import Why
    from sqlengine.trial.rules import TrialRule


@click.command(short_help="Say why a rule fires for an event, or does not.")
@click.argument("rule", metavar="[FILE|JOB]", required=False)
@click.argument("event", metavar="[EVENT]", required=False)
@click.option("--table", help="The table that the event is of, where the rule reads several.")
@click.option("--alert", metavar="TOPIC@OFFSET", help="Name the events behind this alert instead.")
@click.option("--rule", "written_by", metavar="FILE|JOB", help="With --alert: who has written it.")
@click.option(
    "--limit",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(1),
    help="Read so many records of the rule's topics at most.",
)
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
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
    given = event.lstrip().startswith("{")
    text = event if given else check_record(client, place_of(event))
    if is_file(rule):
        (texts, above), since = texts_of_file(rule, define), None
    else:
        texts, above, since = job_texts_at(client, rule, None)
    asked = _Asked(client, None if given else event, since, limit)
    fires = _answer(texts, above, text, table, output, asked)
    ctx.exit(0 if fires else 1)


@dataclass(frozen=True)
class _Asked:
    """A record that `sql why` was asked about, None for an event that it was given. `since`: since
    when the job has run (ms); `limit`: how many records before it are read."""

    client: Client
    record: str | None
    since: int | None
    limit: int


def _answer(
    texts: Texts, above: Texts, event: str, table: str | None, output: str, asked: _Asked
) -> bool:
    """Shows the answer; True if the rule fires."""
    with planned(texts, above) as rule:
        from sqlengine.trial.bench import open_bench
        from sqlengine.trial.explaining import why as explain

        if rule is None:
            return False
        with open_bench() as bench:
            then = _then(bench, rule, asked)
            answer = then or explain(bench, rule, [_event(rule, event, table, asked)])
    (show_why_json if output == "json" else show_why)(rule.name, answer)
    return any(answer.alerts.values())


def _then(bench: Bench, rule: TrialRule, asked: _Asked) -> Why | None:
    """Why the rule fired for a record, with what it had read before; None where that does not
    matter, or cannot be read."""
    from planner.rewrite import nodes
    from sqlengine.trial.replayed import Past
    from sqlengine.trial.states import why_then

    stateful = any(node.stateful for sink in rule.sinks for node in nodes(sink))
    if asked.record is None or not stateful:
        return None
    place = place_of(asked.record)
    with broker_of(asked.client) as broker, at_work("reading what came before"):
        try:
            records = broker.read(place.topic, place.shard, place.offset, max_records=1)
            time = 0 if records is None else int(records.timestamps[0])
            past = Past(bench, rule, broker, (place, time), asked.since, asked.limit)
        except SqlError as error:
            click.echo(f"what came before is not known: {error.message}", err=True)
            return None
        return why_then(past, rule) if past.has_event else None


def _event(rule: TrialRule, text: str, name: str | None, asked: _Asked) -> Event:
    from sqlengine.trial.events import BEGIN_MS, event_of, row_schema

    tables: Sequence[Table] = rule.streams if name is None else rule.reads
    if asked.record is not None and name is None:
        tables = _tables_over(rule, place_of(asked.record).topic) or tables
    table = _table(tables, name)
    try:
        row = json.loads(text)
        json.dumps(row, ensure_ascii=False).encode()  # halves of characters are none
    except (ValueError, RecursionError) as error:
        raise JobError("the event is no JSON", detail=str(error)) from None
    if not isinstance(row, Mapping):
        raise JobError("the event is no object of JSON", hint='write \'{"host": "a"}\'')
    # A field that is no column is an error of who writes an event; a table's format leaves it out.
    if asked.record is not None:
        row = {n: v for n, v in row.items() if n in row_schema(table).names}
    return event_of(table, row, BEGIN_MS)


def _tables_over(rule: TrialRule, topic: str) -> list[Table]:
    """The tables of a rule whose records are in a topic."""
    written = [(table, rule.catalog.table_of(table)) for table in rule.streams]
    return [t for t, w in written if w is not None and w.options.get("topic") == topic]


def _table(tables: Sequence[Table], name: str | None) -> Table:
    found = [t for t in tables if name is None or name in (t.display, ".".join(t.name))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(t.display for t in tables)
    raise JobError(f"the rule reads {names or 'no table'}", hint="say which with --table NAME")
