"""`sql instances` and `sql spark`: what runs jobs besides the server's process."""

from __future__ import annotations

import click

from sqlengine.cli.descriptions import moment
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.tables import draw_table, number
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


_OF_GRAPHS = (
    "graph",
    "jobs",
    "epochs",
    "repeated",
    "last",
    "mean",
    "partitions",
    "tasks",
    "CPU",
    "state written",
)


@click.command(short_help="Show Spark, and the graphs that run there.")
@server_options
def spark(server: str | None, token_file: str | None, output: str) -> None:
    """Show where Spark runs and the address of its UI, and of each graph there how many epochs it
    ran and repeated, how long they take, and what its tasks cost and wrote."""
    show(connect(server, token_file).get("/api/v1/spark"), output, _draw_spark)


def _draw_spark(body: Json) -> None:
    session, graphs = body["session"], items_of(body, "graphs")
    if not isinstance(session, dict):
        click.echo("Spark has not started: no job runs there ('sql submit --on spark')")
        return
    again = f", {session['starts']} times so far" if session["starts"] != 1 else ""
    click.echo(
        f"Spark {session['version']} on {session['master']}, started in"
        f" {session['seconds']:.1f} s{again}"
    )
    click.echo(f"UI: {session['ui'] or 'off (--spark-conf spark.ui.enabled=true)'}")
    if graphs:
        click.echo()
        draw_table(_OF_GRAPHS, [_graph_row(g) for g in graphs])
    for graph in graphs:
        if graph["problem"]:
            click.echo(f"graph {graph['graph']}: {graph['problem']}")
        elif graph["step"]:
            click.echo(graph["step"])


def _graph_row(graph: Json) -> tuple[object, ...]:
    state = graph["state_bytes"]
    assert isinstance(state, int)
    return (
        graph["graph"],
        graph["jobs"],
        number(graph["epochs"]),
        graph["repeated"],
        f"{graph['last_epoch_s']:.2f} s",
        f"{graph['mean_epoch_s']:.2f} s",
        graph["partitions"],
        number(graph["tasks"]),
        f"{graph['cpu_s']:,.1f} s",
        f"{state / (1 << 20):,.1f} MB",
    )
