"""Commands that start, stop and move jobs, and over what they keep: savepoints."""

from __future__ import annotations

from collections.abc import Iterable

import click

from sqlengine.cli.descriptions import moment
from sqlengine.cli.messages import show_error
from sqlengine.cli.options import (
    path_for_server,
    savepoint_option,
    server_options,
    show,
)
from sqlengine.cli.outcomes import draw_outcome, items_of
from sqlengine.cli.tables import draw_table, number
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, Refused, job_url, quote
from sqlengine.system.words import count

SAVEPOINTS = "/api/v1/savepoints"


@click.command()
@click.argument("name")
@savepoint_option
@click.option(
    "--from",
    "begin",
    metavar="PLACE",
    help=(
        "Start as a new job, without its state: at its 'configured' place, 'earliest', 'latest', or"
        " a time such as 2026-01-31T12:00 (UTC)."
    ),
)
@server_options
def start(
    name: str,
    savepoint: str | None,
    begin: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Start a stopped or failed job.

    It goes on where it was, with its state, unless --savepoint or --from says otherwise."""
    query: Json = {"savepoint": path_for_server(savepoint), "from": begin}
    body = connect(server, token_file).post(f"{job_url(name)}/start", b"", **query)
    show(body, output, draw_outcome)


@click.command()
@click.argument("name")
@click.option(
    "--savepoint",
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help=(
        "Write its state and positions first, on the server below FOLDER (default:"
        " state.savepoints.dir, else DATA/savepoints)."
    ),
)
@click.option(
    "--drain",
    is_flag=True,
    help="Tell all windows first, as if the sources had ended; then as --savepoint.",
)
@server_options
def stop(
    name: str,
    savepoint: str | None,
    drain: bool,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Stop a job; it stays, and its text.

    With --savepoint nothing is lost: `sql start JOB --savepoint PATH` goes on exactly there."""
    query: Json = {
        "savepoint": None if savepoint is None else "true",
        "drain": "true" if drain else None,
        "folder": path_for_server(savepoint or None),
    }
    body = connect(server, token_file).post(f"{job_url(name)}/stop", b"", **query)
    show(body, output, draw_outcome)


@click.command(short_help="Take a job into a graph of its own.")
@click.argument("name")
@server_options
def isolate(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Take a job, with its state, out of the graph that it shares with others: neither holds the
    other up any more. It stays there until it is merged."""
    body = connect(server, token_file).post(f"{job_url(name)}/isolate", b"")
    show(body, output, draw_outcome)


@click.command(short_help="Take a job back into the graph that others share.")
@click.argument("name")
@server_options
def merge(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Take a job, with its state, into the graph that it shares with others: at once, or as soon as
    it has read as far as they have (merging)."""
    body = connect(server, token_file).post(f"{job_url(name)}/merge", b"")
    show(body, output, draw_outcome)


@click.command(short_help="Read the look-up tables of a job again.")
@click.argument("name")
@server_options
def reload(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Read the tables again in which a job looks rows up, where these are held as a whole. What has
    changed is there once it is built; `sql jobs JOB` says why it is not."""
    body = connect(server, token_file).post(f"{job_url(name)}/reload-lookups", b"")
    show(body, output, _draw_reloaded)


def _draw_reloaded(body: Json) -> None:
    tables = body["tables"]
    assert isinstance(tables, list)
    click.echo(f"reading {', '.join(tables)} again" if tables else "no table is held as a whole")


@click.command(short_help="Move a job to Spark, or back.")
@click.argument("name")
@click.option(
    "--to",
    "target",
    type=click.Choice(["embedded", "spark"]),
    required=True,
    help="Where its operators run: in the server's process, or in tasks of Spark.",
)
@server_options
def move(name: str, target: str, server: str | None, token_file: str | None, output: str) -> None:
    """Move a job, with its state, to Spark or back. It stays there over new versions, unless their
    texts say something new."""
    body = connect(server, token_file).post(f"{job_url(name)}/move", b"", to=target)
    show(body, output, draw_outcome)


@click.group("savepoint", short_help="Write, list, show and delete savepoints.")
def savepoint() -> None:
    """Savepoints: a job's state and the positions of its sources, from which it can go on."""


@savepoint.command()
@click.argument("job")
@click.option(
    "--folder", help="Folder on the server (default: state.savepoints.dir, else DATA/savepoints)."
)
@server_options
def create(
    job: str, folder: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Write a savepoint of a job, which runs on."""
    query: Json = {"folder": path_for_server(folder)}
    body = connect(server, token_file).post(f"{job_url(job)}/savepoints", b"", **query)
    show(body, output, draw_outcome)


@savepoint.command("list")
@click.option("--folder", help="Folder on the server (default: DATA/savepoints).")
@server_options
def list_savepoints(
    folder: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """List savepoints, oldest first."""
    query: Json = {"folder": path_for_server(folder)}
    show(connect(server, token_file).get(SAVEPOINTS, **query), output, _draw_all)


def _draw_all(body: Json) -> None:
    savepoints = items_of(body, "savepoints")
    good = [s for s in savepoints if "error" not in s]
    rows = [
        (
            s["job"],
            s["version"],
            moment(s["created_ms"]),
            number(s["rows"]),
            number(s["bytes"]),
            s["path"],
        )
        for s in good
    ]
    if rows:
        draw_table(("job", "version", "created", "rows", "bytes", "path"), rows)
    click.echo(count(len(good), "savepoint") if good else "no savepoints", err=True)
    for broken in (s["error"] for s in savepoints if "error" in s):
        click.echo(str(broken["message"]) if isinstance(broken, dict) else "", err=True)


def _url(path: str) -> tuple[str, Json]:
    return f"{SAVEPOINTS}/{quote(path.rstrip('/').rsplit('/', 1)[-1])}", {
        "at": path_for_server(path)
    }


@savepoint.command("show")
@click.argument("path")
@server_options
def show_savepoint(path: str, server: str | None, token_file: str | None, output: str) -> None:
    """Show what is in a savepoint, by its path or name."""
    url, query = _url(path)
    show(connect(server, token_file).get(url, **query), output, _draw_one)


def _draw_one(body: Json) -> None:
    body["created"] = moment(body["created_ms"])
    for key in ("path", "job", "version", "created", "epoch", "format", "layout", "fingerprint"):
        click.echo(f"{key:11} {body[key]}")
    if body["drained"]:
        click.echo(
            "drained     all windows fired before it: the time of a job that starts from it"
            " begins anew"
        )
    operations = items_of(body, "operations")
    tables = [
        (o["name"], t["name"], number(t["rows"]), number(t["bytes"]))
        for o in operations
        for t in items_of(o, "tables")
    ]
    draw_table(("operation", "table", "rows", "bytes"), tables)
    places = [
        (s["table"], shard, at) for s in items_of(body, "sources") for shard, at in _positions(s)
    ]
    draw_table(("source", "shard", "next offset"), places)


def _positions(source: Json) -> Iterable[tuple[str, object]]:
    positions = source["positions"]
    assert isinstance(positions, dict)
    return positions.items()


@savepoint.command("delete")
@click.argument("path")
@server_options
def delete_savepoint(path: str, server: str | None, token_file: str | None, output: str) -> None:
    """Delete a savepoint, by its path or name."""
    url, query = _url(path)
    body = connect(server, token_file).delete(url, **query)
    show(body, output, lambda b: click.echo(f"{b['path']} deleted"))


@click.command(short_help="Show what a job keeps.")
@click.argument("job")
@click.option(
    "--operator", type=click.IntRange(1), help="Show the rows of this one, by its number."
)
@click.option(
    "--limit",
    type=click.IntRange(0, 10_000),
    default=100,
    show_default=True,
    help="Rows of a table.",
)
@server_options
def state(
    job: str,
    operator: int | None,
    limit: int,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Show what a job keeps: rows, keys and bytes by operator, or the rows of one."""
    client = connect(server, token_file)
    if operator is None:
        show(client.get(f"{job_url(job)}/state"), output, _draw_state)
    else:
        show(client.get(f"{job_url(job)}/state/{operator}", limit=limit), output, _draw_rows)


def _draw_state(body: Json) -> None:
    rows = [
        (o["operation"], number(o["rows"]), number(o["keys"]), number(o["bytes"]), o["name"])
        for o in items_of(body, "operations")
    ]
    if rows:
        draw_table(("operator", "rows", "keys", "bytes", "name"), rows)
    else:
        click.echo("it keeps no state", err=True)


def _draw_rows(body: Json) -> None:
    for table in items_of(body, "tables"):
        columns, rows, total = table["columns"], table["rows"], table["total"]
        assert isinstance(columns, list)
        assert isinstance(rows, list)
        assert isinstance(total, int)
        click.echo(f"{table['name']}: {len(rows):,} of {count(total, 'row')}", err=True)
        draw_table(columns, [["NULL" if cell is None else cell for cell in row] for row in rows])


@click.command(short_help="Carry out STOP JOB, SHOW JOBS or ALTER TABLE.")
@click.argument("statement")
@server_options
@click.pass_context
def execute(
    ctx: click.Context, statement: str, server: str | None, token_file: str | None, output: str
) -> None:
    """Have the server carry out a statement about jobs: STOP JOB 'name' [WITH SAVEPOINT [WITH
    DRAIN]], SHOW JOBS, and ALTER TABLE or ALTER VIEW of what a job defines: the job gets a new
    version.

    SET 'state.savepoints.dir' = '…' before it says where the savepoint goes."""
    try:
        body = connect(server, token_file).post("/api/v1/statements", statement.encode())
    except Refused as error:
        show_error(error, statement)
        ctx.exit(1)
    show(body, output, _draw_results)


def _draw_results(body: Json) -> None:
    for result in items_of(body, "results"):
        columns, rows = result["columns"], result["rows"]
        assert isinstance(columns, list)
        assert isinstance(rows, list)
        draw_table(columns, rows)
