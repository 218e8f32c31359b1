"""`sql jobs`: the jobs of a running server, or one of them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sqlengine.cli.descriptions import moment, origin_of, reason_of
from sqlengine.cli.jobs.progress import counts_of, draw_progress, draw_tables_of_jobs, wait_in_list
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import draw_files, items_of, tally
from sqlengine.cli.tables import draw_table, number
from sqlengine.cli.views.costs import show_costs
from sqlengine.cli.views.live import show_live
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, job_url
from sqlengine.jobs.job import MAIN, JobState
from sqlengine.system.words import count, seconds


@click.command(short_help="List all jobs, or show one with its text.")
@click.argument("name", required=False)
@click.option(
    "--state", type=click.Choice([s.value for s in JobState]), help="Only jobs in this state."
)
@click.option(
    "--wide", is_flag=True, help="The tables that jobs read: rows behind, watermark, late rows."
)
@click.option("--cost", is_flag=True, help="What running jobs cost, the costliest first.")
@click.option(
    "--at", metavar="TIME", help="The jobs that ran then, such as '2026-01-31 12:00' (UTC)."
)
@server_options
def jobs(
    name: str | None,
    state: str | None,
    wide: bool,
    cost: bool,
    at: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """List all jobs, and the files of the watched folder that were not taken; or show one job with
    the tables that it reads, what it waits for, and its text."""
    client = connect(server, token_file)
    if at is not None:
        show_live(client.get("/api/v1/live", at=at), name, output)
        return
    if cost:
        show_costs(client, name, output)
        return
    if name is not None:
        show(client.get(job_url(name)), output, _draw_job)
        return
    body = client.get("/api/v1/jobs")
    if state is not None:
        body["jobs"] = [j for j in items_of(body, "jobs") if j["state"] == state]
    show(body, output, (lambda b: draw_tables_of_jobs(items_of(b, "jobs"))) if wide else _draw_jobs)


def _draw_jobs(body: Json) -> None:
    """Draws the table of jobs; with their graphs where not all run in the main one, and what each
    costs where some run on Spark."""
    items = items_of(body, "jobs")
    where = ("graph",) if any(j["graph"] != MAIN for j in items) else ()
    cost = ("cost",) if any(j["target"] == "spark" for j in items) else ()
    rules = any(j["rule"] for j in items)
    head = ("severity", "title") if rules else ()
    columns = ("name", *head, "state", "version", "origin", *where, "rows", *cost)
    items = [
        {
            **j,
            **({n: _of_head(j, n) for n in head}),
            "origin": origin_of(j, str(j["name"])),
            "rows": number(j["rows"]),
            "cost": _cost(j),
        }
        for j in items
    ]
    rows = [
        (*(j[c] for c in columns), moment(j["changed_ms"]), reason_of(j) or wait_in_list(j))
        for j in items
    ]
    if rows:
        draw_table((*columns, "changed", "reason"), rows)
        click.echo(f"{count(len(items), 'job')}: {tally(items, 'state')}", err=True)
    else:
        click.echo("no jobs", err=True)
    draw_files(body)


def _of_head(job: Json, name: str) -> str:
    """A field of the head of a job's text, '' without one."""
    rule = job["rule"]
    return str(rule[name]) if isinstance(rule, Mapping) else ""


def _cost(job: Json) -> str:
    cost = job["cost_s"]
    assert isinstance(cost, int | float)
    return seconds(cost)


def _draw_job(body: Json) -> None:
    ui = f", its UI is {body['spark_ui']}" if body["spark_ui"] else ""
    cost = f"{_cost(body)} of its operators, on {body['target']}{ui}"
    body = body | {"rows": counts_of(body), "cost": cost}
    for key in "name state version origin graph rows cost reason hint file".split():
        if body.get(key) is not None:
            shown = reason_of({**body, "hint": None}) if key == "reason" else body[key]
            click.echo(f"{key:8} {shown}")
    for family in items_of(body, "families"):
        click.echo(f"family   of {family['members']}: {family['operation']}")
    draw_progress(body)
    click.echo(body["sql"])
