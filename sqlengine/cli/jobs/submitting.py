"""`sql submit`, `sql validate` and `sql remove`: changes of the jobs of a running server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

from parser.errors import SqlError
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.broker.errors import Unreachable
from sqlengine.cli.messages import error_json, show_error
from sqlengine.cli.options import (
    define_option,
    files_argument,
    functions_option,
    path_for_server,
    savepoint_option,
    server_options,
    show,
)
from sqlengine.cli.outcomes import draw_outcome, draw_outcomes, items_of
from sqlengine.cli.texts import Texts, Unread, job_texts, modules_in, tables_above
from sqlengine.cli.waiting import at_work, connect
from sqlengine.client import Client, Json, Refused, job_url
from sqlengine.system.words import count


@click.command(short_help="Add or replace jobs on the server.")
@files_argument
@click.option("--name", help="Name of the job (default: the file's name without .sql).")
@savepoint_option
@click.option(
    "--on",
    "target",
    type=click.Choice(["embedded", "spark"]),
    help="Where the jobs run, whatever their texts say (default: as these or the server say).",
)
@functions_option
@define_option
@server_options
@click.pass_context
def submit(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    savepoint: str | None,
    target: str | None,
    functions: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Add or replace jobs on the server, in one change.

    A file is a job; of a folder, every .sql file below it is one, called as in a watched folder:
    team/night/a.sql is team.night.a. Jobs with errors are refused, each with its place; the others
    take effect together."""
    query: Json = {"savepoint": path_for_server(savepoint), "target": target}
    texts, modules = job_texts(files, name, define), modules_in(functions)
    ctx.exit(send(connect(server, token_file), texts, query, output, modules))


def send(
    client: Client,
    texts: Texts,
    query: Json,
    output: str,
    modules: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Submits or validates jobs, and shows what came of it. `modules`: sources of the Python that
    they use, by file name. 1 when one was refused."""
    if len(texts) == 1 and not modules:
        ((job, (path, text)),) = texts.items()
        try:
            show(client.put(job_url(job), text.encode(), file=path, **query), output, draw_outcome)
        except Refused as error:
            if output == "json":
                body: Json = {"name": job, "status": "refused", "version": 0, "error": error.body}
                click.echo(json.dumps(body, ensure_ascii=False))
            show_error(error if path is None else error.in_file(path), text)
            return 1
        return 0
    if query.get("savepoint"):
        raise click.UsageError("--savepoint is for one file, and goes without --functions")
    with at_work(f"the server plans {count(len(texts), 'job')}"):
        sent: Json = {
            "jobs": {n: t for n, (_, t) in texts.items()},
            "files": {n: f for n, (f, _) in texts.items() if f is not None},
        }
        if modules:
            sent["modules"] = dict(modules)
        body = client.post("/api/v1/jobs", sent, **query)
    show(body, output, lambda b: draw_outcomes(b, texts))
    return int(any(o["status"] == "refused" for o in items_of(body, "jobs")))


@click.command(short_help="Say what submit would do, without doing it.")
@files_argument
@click.option("--name", help="Name of the job (default: the file's name without .sql).")
@savepoint_option
@functions_option
@define_option
@server_options
@click.pass_context
def validate(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    savepoint: str | None,
    functions: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Say what submit would do, and what becomes of the jobs' state, without doing it.

    A file is looked at together with the _tables.sql above it."""
    query: Json = {"dry_run": "true", "savepoint": path_for_server(savepoint)}
    above = tables_above(files, define) if savepoint is None else {}
    unread = Unread()
    texts = above | job_texts(files, name, define, unread)
    failed = send(connect(server, token_file), texts, query, output, modules_in(functions))
    for error in unread.values():
        show_error(error, None)
    ctx.exit(1 if unread else failed)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--shadow", is_flag=True, help="Withdraw their shadows; the live versions run on.")
@server_options
@click.pass_context
def remove(
    ctx: click.Context,
    names: Sequence[str],
    shadow: bool,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Remove jobs and their state; their history stays."""
    client = connect(server, token_file)
    names = [shadow_of(rule_of(name)) for name in names] if shadow else names
    if len(names) == 1:
        show(client.delete(job_url(names[0])), output, draw_outcome)
        return
    outcomes = []
    with at_work("removing") as waiting:
        for done, name in enumerate(dict.fromkeys(names), 1):
            waiting.what = f"removing job {done:,} of {len(names):,}"
            outcomes.append(_removed(client, name))
    show({"jobs": outcomes}, output, lambda b: draw_outcomes(b, {}))
    ctx.exit(int(any(o["status"] == "refused" for o in outcomes)))


def _removed(client: Client, name: str) -> Json:
    try:
        return client.delete(job_url(name))
    except Unreachable:
        raise
    except SqlError as error:
        return {"name": name, "status": "refused", "version": 0, "error": error_json(error)}
