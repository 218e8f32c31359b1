"""Shows the costs of jobs for `sql jobs --cost`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sqlengine.cli.options import show
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.tables import draw_table, number
from sqlengine.client import Client, Json, job_url
from sqlengine.system.words import count

_LONGEST = 60  # characters of a condition in a list


def show_costs(client: Client, name: str | None, output: str) -> None:
    """Shows what all running jobs cost, or one with its conditions."""
    if name is None:
        show(client.get("/api/v1/costs"), output, _draw_all)
    else:
        show(client.get(f"{job_url(name)}/cost"), output, _draw_one)


def _draw_all(body: Json) -> None:
    jobs = items_of(body, "jobs")
    if not jobs:
        click.echo("no jobs run", err=True)
        return
    over = ("over budget",) if any(job["over_budget"] for job in jobs) else ()
    columns = ("name", "CPU µs/event", "share", "state", "rows", "cache hits", "slowest condition")
    rows = [(*_row(job), *(str(job["over_budget"] or "") for _ in over)) for job in jobs]
    draw_table((*columns, *over), rows)
    click.echo(count(len(jobs), "job"), err=True)


def _row(job: Json) -> tuple[str, ...]:
    slowest = job.get("slowest")
    condition = str(slowest["condition"]) if isinstance(slowest, Mapping) else ""
    if len(condition) > _LONGEST:
        condition = f"{condition[: _LONGEST - 1]}…"
    return (
        str(job["name"]),
        _us(job["cpu_us_per_event"]),
        _percent(job["share"]),
        _size(job["state_bytes"]),
        number(job["rows"]),
        _percent(job["cache_hits"]),
        condition,
    )


def _draw_one(body: Json) -> None:
    us, share = _us(body["cpu_us_per_event"]), _percent(body["share"])
    click.echo(f"cost     {us or '-'} µs of the CPU an event, over {number(body['events'])} events")
    click.echo(f"share    {share} of graph {body['graph']}")
    click.echo(f"state    {_size(body['state_bytes'])}")
    click.echo(f"rows     {number(body['rows'])}")
    if body["cache_hits"] is not None:
        click.echo(f"cache    {_percent(body['cache_hits'])} of the values were known")
    if body["over_budget"] is not None:
        click.echo(f"budget   {body['over_budget']}")
    conditions = items_of(body, "conditions")
    rows = [(_us(c["us_per_row"]), _percent(c["true"]), c["condition"]) for c in conditions]
    if rows:
        draw_table(("µs/row", "true", "condition, by itself"), rows)


def _us(value: object) -> str:
    assert value is None or isinstance(value, int | float)
    return "" if value is None else f"{value:,.2f}"


def _percent(value: object) -> str:
    assert value is None or isinstance(value, int | float)
    return "" if value is None else f"{100 * value:.1f}%"


def _size(value: object) -> str:
    assert isinstance(value, int)
    return f"{value / 1e6:,.1f} MB" if value >= 100_000 else f"{value / 1e3:,.1f} kB"
