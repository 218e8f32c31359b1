"""Commands over the jobs of a running server."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table

from parser.errors import JobError, ServiceError, SqlError, render
from sqlengine.client import Json, Refused, default_client, quote
from sqlengine.jobs import check_name

F = TypeVar("F", bound=Callable[..., object])


def server_options(command: F) -> F:
    """--server, --token-file and --output, as all commands that talk to a server have them."""
    command = click.option("--server", help="URL of the server (default: SQLENGINE_SERVER, else 127.0.0.1:8083).")(
        command
    )
    command = click.option("--token-file", help="File with the server's token (or SQLENGINE_TOKEN).")(command)
    return click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)(command)


def show(body: Json, output: str, draw: Callable[[Json], None]) -> None:
    """The server's answer as JSON, or drawn."""
    if output == "json":
        click.echo(json.dumps(body, ensure_ascii=False))
    else:
        draw(body)


def read_text(path: str) -> str:
    """A script's text, of standard input for '-'; ServiceError where it cannot be read or is no UTF-8."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be read", detail=error.strerror) from None
    except UnicodeDecodeError as error:
        detail = f"{error.reason} at byte {error.start}"
        raise ServiceError(f"'{path}' is not UTF-8", detail=detail, hint="a script is a text file") from None


def definitions(pairs: Sequence[str]) -> dict[str, str]:
    """-D NAME=VALUE options as a dictionary."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE", param_hint="-D")
        result[name] = value
    return result


def _texts(files: Sequence[str], name: str | None, define: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """Job name -> (file, text)."""
    from parser.script import substitute

    if name is not None and len(files) != 1:
        raise click.BadParameter("--name goes with one file", param_hint="--name")
    if "-" in files and name is None:
        raise click.BadParameter("standard input needs --name", param_hint="--name")
    values = definitions(define)
    texts: dict[str, tuple[str | None, str]] = {}
    for path in files:
        job = check_name(Path(path).name.removesuffix(".sql") if name is None else name)
        if job in texts:
            raise JobError(
                f"'{texts[job][0] or '-'}' and '{path}' would both be the job '{job}'",
                hint="submit them one by one, with --name",
            )
        file = None if path == "-" else path
        text = read_text(path)
        try:
            texts[job] = file, substitute(text, values) if define else text
        except SqlError as error:
            raise error.in_file(file) from None
    return texts


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--name", help="Name of the job (default: the file's name without .sql).")
@click.option("--take-over", is_flag=True, help="Replace jobs that came from elsewhere.")
@click.option("-D", "define", multiple=True, metavar="NAME=VALUE", help="Replaces ${NAME} in the text.")
@server_options
@click.pass_context
def submit(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    take_over: bool,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Add or replace jobs on the server, in one change."""
    texts = _texts(files, name, define)
    client = default_client(server, token_file)
    query: Json = {"take_over": "true" if take_over else None}
    if len(texts) == 1:
        ((job, (path, text)),) = texts.items()
        body = _one(lambda: client.put(job_url(job), text.encode(), file=path, **query), text)
        show(body, output, _draw_outcome)
        return
    body = client.post("/api/v1/jobs", {"jobs": {n: t for n, (_, t) in texts.items()}}, **query)
    show(body, output, lambda b: _draw_outcomes(b, texts))
    ctx.exit(1 if any(o["status"] == "refused" for o in _list(body, "jobs")) else 0)


def _one(send: Callable[[], Json], text: str) -> Json:
    """A refusal of a text that was just read is shown with its line and a caret."""
    try:
        return send()
    except Refused as error:
        click.echo(render(error, text), err=True)
        raise SystemExit(1) from None


def _list(body: Json, key: str) -> list[Json]:
    items = body[key]
    assert isinstance(items, list)
    return items


def _draw_outcomes(body: Json, texts: Mapping[str, tuple[str | None, str]]) -> None:
    for outcome in _list(body, "jobs"):
        file, text = texts[str(outcome["name"])]
        _draw_outcome(outcome, file, text)


def _draw_outcome(body: Json, file: str | None = None, text: str | None = None) -> None:
    click.echo(f"{body['name']}: {body['status']}" + (f", version {body['version']}" if body["version"] else ""))
    error = body.get("error")
    if isinstance(error, dict):
        click.echo(render(Refused(error).in_file(file), text), err=True)
    state = body.get("state", [])
    for item in state if isinstance(state, list) else []:
        click.echo(f"  state of {item['operator']}: {item['outcome']}")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--name", help="Name of the job.")
@click.option("-D", "define", multiple=True, metavar="NAME=VALUE")
@server_options
@click.pass_context
def validate(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Say what submit would do, and what becomes of the job's state, without doing it."""
    texts = _texts(files, name, define)
    client = default_client(server, token_file)
    if len(texts) == 1:
        ((job, (path, text)),) = texts.items()
        body = _one(lambda: client.put(job_url(job), text.encode(), dry_run="true", file=path), text)
        show(body, output, _draw_outcome)
        return
    body = client.post("/api/v1/jobs", {"jobs": {n: t for n, (_, t) in texts.items()}}, dry_run="true")
    show(body, output, lambda b: _draw_outcomes(b, texts))
    ctx.exit(1 if any(o["status"] == "refused" for o in _list(body, "jobs")) else 0)


def job_url(name: str) -> str:
    """The job's path on the server; JobError for what is no name."""
    return f"/api/v1/jobs/{quote(check_name(name))}"


@click.command()
@click.argument("target")
@click.option("-D", "define", multiple=True, metavar="NAME=VALUE")
@server_options
def explain(target: str, define: Sequence[str], server: str | None, token_file: str | None, output: str) -> None:
    """Show the plan of a job after every step: of a file (planned here), or of a job by name (as it runs)."""
    if target == "-" or Path(target).is_file():
        click.echo(_explain_file(target, define, output))
        return
    url = f"{job_url(target)}/explain"
    client = default_client(server, token_file)
    if output == "json":
        click.echo(json.dumps(client.get(url, format="json"), ensure_ascii=False))
    else:
        click.echo(client.get_text(url))


def _explain_file(path: str, define: Sequence[str], output: str) -> str:
    from planner.catalog import Catalog
    from sqlengine.explanation import explain_sinks, explain_sinks_json
    from sqlengine.planning import JobText, bind_job, with_entry_points
    from sqlengine.script import script_library

    ((name, (_, text)),) = _texts([path], "explained", define).items()
    file = None if path == "-" else path
    with tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch, script_library(Path(scratch), file) as library:
        bound = bind_job(JobText(name, text, file), with_entry_points(Catalog(), library), {}, library)
    if output == "json":
        return json.dumps(explain_sinks_json(bound.plans, bound.disabled, None, name), ensure_ascii=False)
    return explain_sinks(bound.plans, bound.disabled, None, name)


@click.command()
@click.argument("name", required=False)
@server_options
def jobs(name: str | None, server: str | None, token_file: str | None, output: str) -> None:
    """List all jobs, or show one with its text."""
    client = default_client(server, token_file)
    if name is None:
        show(client.get("/api/v1/jobs"), output, _draw_jobs)
        return
    show(client.get(job_url(name)), output, _draw_job)


def _draw_jobs(body: Json) -> None:
    table = Table("name", "state", "version", "origin", "rows", "changed", "reason")
    for job in _list(body, "jobs"):
        cells = (job["name"], job["state"], job["version"], job["origin"], job["rows"], _time(job["changed_ms"]))
        table.add_row(*map(str, cells), str(job["reason"] or ""))
    Console().print(table)
    for refused in _list(body, "refused_files"):
        error = refused["error"]
        assert isinstance(error, dict)
        click.echo(f"{refused['file']} was not taken:\n{render(Refused(error))}", err=True)


def _draw_job(body: Json) -> None:
    for key in ("name", "state", "version", "origin", "graph", "rows", "reason", "file"):
        if body.get(key) is not None:
            click.echo(f"{key:8} {body[key]}")
    click.echo(body["sql"])


def _time(value: object) -> str:
    assert isinstance(value, int)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value / 1000))


def _action(verb: str, doc: str) -> click.Command:
    @click.command(name=verb, help=doc)
    @click.argument("name")
    @server_options
    def command(name: str, server: str | None, token_file: str | None, output: str) -> None:
        body = default_client(server, token_file).post(f"{job_url(name)}/{verb}")
        show(body, output, _draw_outcome)

    return command


@click.command()
@click.argument("name")
@click.option("--take-over", is_flag=True, help="Also when the job came from elsewhere.")
@server_options
def remove(name: str, take_over: bool, server: str | None, token_file: str | None, output: str) -> None:
    """Remove a job and its state; its history stays."""
    query: Json = {"take_over": "true" if take_over else None}
    show(default_client(server, token_file).delete(job_url(name), **query), output, _draw_outcome)


@click.command()
@click.argument("name")
@server_options
def history(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """List all versions of a job."""
    show(default_client(server, token_file).get(f"{job_url(name)}/history"), output, _draw_history)


def _draw_history(body: Json) -> None:
    table = Table("version", "created", "origin", "text")
    for version in _list(body, "versions"):
        text = " ".join(str(version["sql"]).split())
        table.add_row(str(version["version"]), _time(version["created_ms"]), str(version["origin"]), text[:80])
    Console().print(table)


@click.command()
@click.argument("name")
@click.argument("version", type=int)
@click.option("--take-over", is_flag=True, help="Also when the job came from elsewhere.")
@server_options
def rollback(name: str, version: int, take_over: bool, server: str | None, token_file: str | None, output: str) -> None:
    """Submit an old version of a job again, as a new version."""
    query: Json = {"version": version, "take_over": "true" if take_over else None}
    body = default_client(server, token_file).post(f"{job_url(name)}/rollback", b"", **query)
    show(body, output, _draw_outcome)


start = _action("start", "Start a stopped or failed job.")
stop = _action("stop", "Stop a job; it stays, and its text.")
JOB_COMMANDS = (submit, validate, explain, jobs, start, stop, remove, history, rollback)
