"""Commands over the jobs of a running server."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from parser.errors import render
from sqlengine.cli.job_progress import (
    counts_of,
    draw_progress,
    draw_tables_of_jobs,
    wait_in_list,
)
from sqlengine.cli.refused_files import draw_refused_files
from sqlengine.cli.tables import at_work, count, draw_table
from sqlengine.cli.texts import Texts, job_texts
from sqlengine.client import Client, Json, Refused, default_client, job_url
from sqlengine.jobs.job import MAIN, JobState
from sqlengine.system.words import counted

# So many outcomes are shown one by one.
FEW = 20
F = TypeVar("F", bound=Callable[..., object])


def connection_options(command: F) -> F:
    """--server and --token-file."""
    url = "HOST:PORT or URL of the server (default: SQLENGINE_SERVER, else 127.0.0.1:8083)."
    command = click.option("--server", help=url)(command)
    return click.option("--token-file", help="File with the server's token (or SQLENGINE_TOKEN).")(
        command
    )


def server_options(command: F) -> F:
    """--server, --token-file and --output, as all commands that talk to a server have them."""
    text = "'json' is the server's answer, for programs."
    command = connection_options(command)
    kinds = click.Choice(["table", "json"])
    return click.option("--output", type=kinds, default="table", show_default=True, help=text)(
        command
    )


def show(body: Json, output: str, draw: Callable[[Json], None]) -> None:
    """The server's answer as JSON, or drawn."""
    if output == "json":
        click.echo(json.dumps(body, ensure_ascii=False))
    else:
        draw(body)


def files_argument(command: F) -> F:
    """FILES, for commands that take scripts."""
    path = click.Path(exists=True, allow_dash=True)
    return click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER...", type=path)(
        command
    )


def savepoint_option(command: F) -> F:
    """--savepoint, for commands that start a job."""
    text = "Start from this savepoint: its path, or its name ('sql savepoint list')."
    return click.option("--savepoint", metavar="PATH", help=text)(command)


def path_for_server(path: str | None) -> str | None:
    """A path as the server understands it, which runs in another folder; a name is one there."""
    return str(Path(path).absolute()) if path and "/" in path and "://" not in path else path


def define_option(command: F) -> F:
    """-D NAME=VALUE."""
    text = "Replaces ${NAME} in the text; may be repeated."
    return click.option("-D", "define", multiple=True, metavar="NAME=VALUE", help=text)(command)


@click.command(short_help="Add or replace jobs on the server.")
@files_argument
@click.option("--name", help="Name of the job (default: the file's name without .sql).")
@savepoint_option
@define_option
@server_options
@click.pass_context
def submit(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    savepoint: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Add or replace jobs on the server, in one change.

    A file is a job; of a folder, every .sql file below it is one, called as in a watched folder:
    team/night/a.sql is team.night.a. Jobs with errors are refused, each with its place; the others
    take effect together."""
    query: Json = {"savepoint": path_for_server(savepoint)}
    ctx.exit(
        _send(default_client(server, token_file), job_texts(files, name, define), query, output)
    )


def _send(client: Client, texts: Texts, query: Json, output: str) -> int:
    """Submits or validates jobs, and shows what came of it. 1 when one was refused."""
    if len(texts) == 1:
        ((job, (path, text)),) = texts.items()
        try:
            show(client.put(job_url(job), text.encode(), file=path, **query), output, draw_outcome)
        except Refused as error:
            if output == "json":
                body: Json = {"name": job, "status": "refused", "version": 0, "error": error.body}
                click.echo(json.dumps(body, ensure_ascii=False))
            click.echo(render(error, text), err=True)
            return 1
        return 0
    if query.get("savepoint"):
        raise click.UsageError("--savepoint is for one job: give one file")
    with at_work(f"the server plans {count(len(texts), 'job')}"):
        sent: Json = {
            "jobs": {n: t for n, (_, t) in texts.items()},
            "files": {n: f for n, (f, _) in texts.items() if f is not None},
        }
        body = client.post("/api/v1/jobs", sent, **query)
    show(body, output, lambda b: draw_outcomes(b, texts))
    return int(any(o["status"] == "refused" for o in items_of(body, "jobs")))


def items_of(body: Json, key: str) -> list[Json]:
    items = body[key]
    assert isinstance(items, list)
    return items


def draw_outcomes(body: Json, texts: Texts) -> None:
    """Each of a few; of many those that were refused, and how many came to what."""
    outcomes = items_of(body, "jobs")
    _tell_topics_once(outcomes)
    for outcome in outcomes:
        if len(outcomes) <= FEW or outcome["status"] == "refused":
            draw_outcome(outcome, *texts[str(outcome["name"])])
    if len(outcomes) > FEW:
        click.echo(f"{count(len(outcomes), 'job')}: {_tally(outcomes, 'status')}")
        _draw_warnings(outcomes)


def _tell_topics_once(outcomes: Sequence[Json]) -> None:
    """Leaves a topic that several jobs name with the first of them."""
    known: set[str] = set()
    for outcome in outcomes:
        topics = (
            {str(t["text"]): t for t in items_of(outcome, "topics")} if "topics" in outcome else {}
        )
        outcome["topics"] = [t for text, t in topics.items() if text not in known]
        known |= topics.keys()


def _draw_warnings(outcomes: Sequence[Json]) -> None:
    """Each warning once, with the jobs that it is about."""
    jobs: dict[str, list[str]] = {}
    for outcome in outcomes:
        for warning in _warnings_of(outcome):
            jobs.setdefault(warning, []).append(str(outcome["name"]))
    for warning, names in jobs.items():
        click.echo(f"warning: {counted(names)}: {warning}", err=True)


def _warnings_of(outcome: Json) -> list[str]:
    warnings = outcome.get("warnings")
    return [str(w) for w in warnings] if isinstance(warnings, list) else []


def _tally(items: Sequence[Json], key: str, between: str = ", ") -> str:
    """1,410 running, 4 stopped."""
    return between.join(
        f"{n:,} {word}" for word, n in Counter(str(i[key]) for i in items).most_common()
    )


def draw_outcome(body: Json, file: str | None = None, text: str | None = None) -> None:
    click.echo(
        f"{body['name']}: {body['status']}"
        + (f", version {body['version']}" if body["version"] else "")
    )
    error = body.get("error")
    if isinstance(error, dict):
        click.echo(render(Refused(error).in_file(file), text), err=True)
    if body.get("savepoint"):
        click.echo(f"  savepoint {body['savepoint']}")
    topics = body.get("topics", [])
    for topic in topics if isinstance(topics, list) else []:
        similar = f"; did you mean '{topic['similar']}'?" if topic.get("similar") else ""
        done = "created" if topic["created"] else "would create"
        click.echo(f"  {done} {topic['text']}{similar}")
    for warning in _warnings_of(body):
        click.echo(f"  warning: {warning}", err=True)
    state = body.get("state", [])
    for item in state if isinstance(state, list) else []:
        click.echo(
            f"  state of {item['operator']}: {item['outcome']}"
            + (f" ({r})" if (r := item.get("reason")) else "")
        )
    sinks = body.get("sinks", [])
    for sink in sinks if isinstance(sinks, list) else []:
        click.echo(
            f"  writes to {sink['table']} ({sink['connector']}): {sink['guarantee']},"
            f" changelogMode={sink['changelog_mode']}"
        )
    if "dependents" in body:
        _draw_dependents(items_of(body, "dependents"))


def _draw_dependents(outcomes: Sequence[Json]) -> None:
    """The jobs that use what a job defines differently now: each of a few, of many those whose
    state is not kept, and how many fare alike."""
    fates: list[Json] = []
    for outcome in outcomes:
        states = Counter(str(i["outcome"]) for i in items_of({"state": [], **outcome}, "state"))
        fate = ", ".join([str(outcome["status"]), *(f"state {word}" for word in states)])
        fates.append({"fate": fate})
        if len(outcomes) <= FEW or not states.keys() <= {"kept"}:
            click.echo(f"  {outcome['name']}: {fate}")
    if len(outcomes) > FEW:
        click.echo(f"  {count(len(outcomes), 'job')} that use it: {_tally(fates, 'fate', '; ')}")


@click.command(short_help="Say what submit would do, without doing it.")
@files_argument
@click.option("--name", help="Name of the job (default: the file's name without .sql).")
@savepoint_option
@define_option
@server_options
@click.pass_context
def validate(
    ctx: click.Context,
    files: Sequence[str],
    name: str | None,
    savepoint: str | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Say what submit would do, and what becomes of the jobs' state, without doing it."""
    query: Json = {"dry_run": "true", "savepoint": path_for_server(savepoint)}
    ctx.exit(
        _send(default_client(server, token_file), job_texts(files, name, define), query, output)
    )


@click.command(short_help="Show the plan of a file or of a job.")
@click.argument("target", metavar="FILE|JOB")
@define_option
@server_options
def explain(
    target: str, define: Sequence[str], server: str | None, token_file: str | None, output: str
) -> None:
    """Show the plan of a job after every step: of a file (planned here), or of a job by name (as it
    runs)."""
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
    from sqlengine.jobs.explanation import explain_sinks, explain_sinks_json
    from sqlengine.jobs.planning import JobText, plan_job, with_entry_points
    from sqlengine.session.environment import script_library

    ((name, (_, text)),) = job_texts([path], "explained", define).items()
    file = None if path == "-" else path
    with (
        tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch,
        script_library(Path(scratch), file) as library,
    ):
        planned = plan_job(
            JobText(name, text, file),
            with_entry_points(Catalog(), library),
            {},
            library,
            traced=True,
        )
    if output == "json":
        explained = explain_sinks_json(planned.sinks, planned.traces, None, name)
        return json.dumps(explained, ensure_ascii=False)
    return explain_sinks(planned.sinks, planned.traces, None, name, planned.settings)


@click.command(short_help="List all jobs, or show one with its text.")
@click.argument("name", required=False)
@click.option(
    "--state", type=click.Choice([s.value for s in JobState]), help="Only jobs in this state."
)
@click.option(
    "--wide", is_flag=True, help="The tables that jobs read: rows behind, watermark, late rows."
)
@server_options
def jobs(
    name: str | None,
    state: str | None,
    wide: bool,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """List all jobs, and the files of the watched folder that were not taken; or show one job with
    the tables that it reads, what it waits for, and its text."""
    client = default_client(server, token_file)
    if name is not None:
        show(client.get(job_url(name)), output, _draw_job)
        return
    body = client.get("/api/v1/jobs")
    if state is not None:
        body["jobs"] = [j for j in items_of(body, "jobs") if j["state"] == state]
    show(body, output, (lambda b: draw_tables_of_jobs(items_of(b, "jobs"))) if wide else _draw_jobs)


def _draw_jobs(body: Json) -> None:
    """Draws the table of jobs; with their graphs where not all run in the main one."""
    items = items_of(body, "jobs")
    where = ("graph",) if any(j["graph"] != MAIN for j in items) else ()
    columns = ("name", "state", "version", "origin", *where, "rows")
    items = [{**j, "origin": origin_of(j)} for j in items]
    rows = [
        (*(j[c] for c in columns), moment(j["changed_ms"]), reason_of(j) or wait_in_list(j))
        for j in items
    ]
    if rows:
        draw_table((*columns, "changed", "reason"), rows)
        click.echo(f"{count(len(items), 'job')}: {_tally(items, 'state')}", err=True)
    else:
        click.echo("no jobs", err=True)
    draw_refused_files(items_of(body, "refused_files"))
    for file in items_of(body, "overridden_files"):
        click.echo(f"{file['file']}: {file['message']}", err=True)


def reason_of(job: Json) -> str:
    """Why the job is in its state; how often it failed in a row, and when it starts again."""
    reason = str(job["reason"] or job.get("hint") or "")
    restarts, at = job.get("restarts", 0), job.get("next_ms")
    if isinstance(at, int) and restarts:
        return f"failure {restarts}, again at {moment(at)[11:]}: {reason}"
    goes_on = "'sql start' goes on where it was" if job.get("position") else ""
    return "; ".join(filter(None, (reason, goes_on)))


def origin_of(body: Json) -> str:
    """The way by which a version came, with the name of its file; of one that is planned again for
    the new definitions of other jobs, these too."""
    file, follows = body.get("file"), body.get("follows")
    came = f"{body['origin']} {Path(str(file)).name}" if file else str(body["origin"])
    if not isinstance(follows, list) or not follows:
        return came
    return f"{came}, follows {', '.join(follows)}"


def _draw_job(body: Json) -> None:
    body = body | {"rows": counts_of(body)}
    for key in ("name", "state", "version", "origin", "graph", "rows", "reason", "hint", "file"):
        if body.get(key) is not None:
            shown = reason_of(body) if key == "reason" else body[key]
            click.echo(f"{key:8} {shown}")
    draw_progress(body)
    click.echo(body["sql"])


def moment(value: object) -> str:
    assert isinstance(value, int)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value / 1000))


@click.command()
@click.argument("name")
@server_options
def remove(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Remove a job and its state; its history stays."""
    show(default_client(server, token_file).delete(job_url(name)), output, draw_outcome)


@click.command()
@click.argument("name")
@server_options
def history(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """List all versions of a job."""
    show(default_client(server, token_file).get(f"{job_url(name)}/history"), output, _draw_history)


def _draw_history(body: Json) -> None:
    versions = items_of(body, "versions")
    first = {str(v["sql"]): v["version"] for v in reversed(versions)}
    rows = [
        (v["version"], moment(v["created_ms"]), origin_of(v), _text_of(v, first)) for v in versions
    ]
    draw_table(("version", "created", "origin", "text"), rows)


def _text_of(version: Json, first: Mapping[str, object]) -> str:
    """The text of a version; of one that was brought again, after a rollback or for new
    definitions, the version that had it first."""
    sql = str(version["sql"])
    return _shortened(sql) if first[sql] == version["version"] else f"as version {first[sql]}"


def _shortened(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= 80 else line[:79] + "…"


@click.command()
@click.argument("name")
@click.argument("version", type=int)
@server_options
def rollback(
    name: str,
    version: int,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Submit an old version of a job again, as a new version."""
    url = f"{job_url(name)}/rollback"
    body = default_client(server, token_file).post(url, b"", version=version)
    show(body, output, draw_outcome)
