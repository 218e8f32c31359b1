"""`sql diff` and `sql promote`: a version of a rule that runs beside the live one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from sqlengine.cli.descriptions import moment
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import draw_outcome, items_of
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, job_url
from sqlengine.system.words import count


@click.command(short_help="Compare a rule's shadow with its live version.")
@click.argument("name", metavar="RULE")
@server_options
def diff(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Say what the shadow of a rule would have written since it began (+), and left out (-), beside
    what the live version wrote, with the last of these rows."""
    show(connect(server, token_file).get(f"{job_url(name)}/diff"), output, _draw)


@click.command(short_help="Let a rule's shadow become live.")
@click.argument("name", metavar="RULE")
@server_options
def promote(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Let the shadow of a rule take the place of its live version, with its state, between two
    epochs. 'sql remove RULE --shadow' withdraws it instead."""
    body = connect(server, token_file).post(f"{job_url(name)}/promote", b"")
    show(body, output, draw_outcome)


def _draw(body: Json) -> None:
    beside = f"beside version {body['live']}" if body["live"] else "beside no live version"
    since = f"since {moment(body['since_ms'])}"
    click.echo(f"{body['rule']}: version {body['version']} as a shadow {beside}, {since}")
    if not body["complete"]:
        click.echo("  rows from before are not kept any more")
    tables = items_of(body, "tables")
    for table in tables:
        _draw_table(table)
    if not tables:
        click.echo("  neither has given a row")


def _draw_table(table: Json) -> None:
    both, added, left = table["both"], table["added"], table["left_out"]
    assert isinstance(both, int)
    click.echo(f"  {table['table']}: both gave {count(both, 'row')}, +{added:,} -{left:,}")
    ignored = table["ignored"]
    if isinstance(ignored, list) and ignored:
        click.echo(f"    not compared, as each run gives others: {', '.join(ignored)}")
    for sign, key in (("+", "added_samples"), ("-", "left_out_samples")):
        for sample in items_of(table, key):
            click.echo(f"    {sign} {_sample(sample)}")


def _sample(sample: Mapping[str, object]) -> str:
    kind = "" if sample["kind"] == "+I" else f"{sample['kind']} "
    return f"{moment(sample['time'])}  {kind}{json.dumps(sample['row'], ensure_ascii=False)}"
