"""`sql instances`: the processes that run jobs in parts."""

from __future__ import annotations

import click

from sqlengine.cli.descriptions import moment
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.tables import draw_table
from sqlengine.cli.waiting import connect
from sqlengine.client import Json

_HEADERS = (
    "graph",
    "instance",
    "state",
    "pid",
    "parts",
    "rows/s",
    "lag (records)",
    "memory",
    "since",
    "restarts",
)
_HOST = 4  # where the host stands, if any instance is on another one


@click.command(short_help="List the instances of the server.")
@server_options
def instances(server: str | None, token_file: str | None, output: str) -> None:
    """List the processes that run jobs in parts: what each owns, how fast it reads, and how much is
    left to read."""
    show(connect(server, token_file).get("/api/v1/instances"), output, _draw)


def _draw(body: Json) -> None:
    items = items_of(body, "instances")
    if not items:
        click.echo("the server has no instances: all jobs run in it ('sql serve --instances N')")
        return
    headers, rows = list(_HEADERS), [list(_row(item)) for item in items]
    if any(item.get("host") for item in items):
        headers.insert(_HOST, "host")
        for row, item in zip(rows, items, strict=True):
            row.insert(_HOST, item.get("host") or "")
    draw_table(headers, rows)
    for item in items:
        waiting = item["waiting"]
        assert isinstance(waiting, list)
        for said in (item["problem"], *waiting):
            if said:
                click.echo(f"instance {item['instance']} of {item['graph']}: {said}")


def _row(item: Json) -> tuple[object, ...]:
    parts, memory, since = item["parts"], item["memory"], item["since_ms"]
    assert isinstance(parts, list)
    assert isinstance(memory, int)
    assert isinstance(since, int)
    owned = " ".join(map(str, parts))
    numbers = (f"{item['rows_per_s']:,.0f}", f"{item['lag']:,}", f"{memory / (1 << 20):,.0f} MB")
    pid = "" if item["pid"] is None else item["pid"]
    return (
        item["graph"],
        item["instance"],
        item["state"],
        pid,
        owned,
        *numbers,
        moment(since),
        item["restarts"],
    )
