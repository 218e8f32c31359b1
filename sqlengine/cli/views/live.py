"""Shows the jobs of a moment of the past for `sql jobs --at` and `sql audit live`."""

from __future__ import annotations

import json

import click

from parser.errors import ServiceError
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.tables import draw_table
from sqlengine.client import Json
from sqlengine.system.words import count


def show_live(body: Json, name: str | None, output: str) -> None:
    """Shows the jobs that ran at a moment, or one of them with its text. ServiceError where that is
    not known."""
    if not body["known"]:
        raise ServiceError(
            f"which jobs ran at {body['at']} is not known",
            detail="the audit log begins later",
            hint="'sql audit show --last 1000000' shows its first lines",
        )
    jobs = [j for j in items_of(body, "jobs") if name in (None, j["name"])]
    if output == "json":
        click.echo(json.dumps({**body, "jobs": jobs}, ensure_ascii=False))
        return
    if jobs:
        columns = ("name", "version", "since", "by", "from")
        rows = [tuple(str(j[c]) for c in ("name", "version", "since", "by", "peer")) for j in jobs]
        draw_table(columns, rows)
    up = "" if body["server_ran"] else ": the server did not run"
    click.echo(f"{count(len(jobs), 'job')} ran at {body['at']}{up}", err=True)
    if not body["proven"]:
        click.echo(
            "as far as the audit log knows: the server may have been killed by then, after its line"
            f" of {body['last_line']}",
            err=True,
        )
    if name is not None:
        for job in jobs:
            if not job["text_proven"]:
                click.echo("the text is not the one that the audit log has seen", err=True)
            click.echo(job["sql"] or "")
