"""Commands over the jobs of a running server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from parser.errors import SqlError
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.broker.errors import Unreachable
from sqlengine.cli.descriptions import moment, origin_of, reason_of
from sqlengine.cli.job_progress import (
    counts_of,
    draw_progress,
    draw_tables_of_jobs,
    wait_in_list,
)
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
from sqlengine.cli.outcomes import draw_files, draw_outcome, draw_outcomes, items_of, tally
from sqlengine.cli.tables import draw_table, number
from sqlengine.cli.texts import Texts, Unread, job_texts, modules_in, tables_above
from sqlengine.cli.views.costs import show_costs
from sqlengine.cli.views.live import show_live
from sqlengine.cli.waiting import at_work, connect
from sqlengine.client import Client, Json, Refused, job_url
from sqlengine.config import Target
from sqlengine.jobs.job import MAIN, JobState
from sqlengine.jobs.targets import TARGETS, target_in
from sqlengine.system.words import count, seconds

# Characters of a text in a list, and those of them in front of what is new.
_SHOWN: Final = 80
_LEAD: Final = 20


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


@click.command(short_help="Show the plan of a file or of a job.")
@click.argument("target", metavar="FILE|JOB")
@click.option(
    "--on",
    "where",
    type=click.Choice(TARGETS),
    help="Where the file would run: on Spark its stages are shown, too (default: as it says).",
)
@define_option
@server_options
def explain(
    target: str,
    where: Target | None,
    define: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Show the plan of a job after every step: of a file (planned here, with the _tables.sql above
    it), or of a job by name (as it runs)."""
    if target == "-" or Path(target).is_file():
        click.echo(_explain_file(target, where, define, output))
        return
    if where is not None:
        raise click.UsageError(f"--on is for a file, and '{target}' is none")
    url = f"{job_url(target)}/explain"
    client = connect(server, token_file)
    if output == "json":
        click.echo(json.dumps(client.get(url, format="json"), ensure_ascii=False))
    else:
        click.echo(client.get_text(url))


def _explain_file(path: str, where: Target | None, define: Sequence[str], output: str) -> str:
    from sqlengine.system.memory import importing

    with importing():
        from planner.catalog import Catalog
        from sqlengine.executors.spark.supported import check_statements
        from sqlengine.jobs.explanation import explain_sinks, explain_sinks_json, stages_on_spark
        from sqlengine.jobs.planning import (
            JobText,
            plan_job,
            with_entry_points,
            with_objects,
        )
        from sqlengine.session.environment import script_library

    ((name, (_, text)),) = job_texts([path], "explained", define).items()
    file = None if path == "-" else path
    with (
        tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch,
        script_library(Path(scratch), file) as library,
    ):
        catalog = with_entry_points(Catalog(), library)
        for job, (above, tables) in tables_above([path], define).items():
            known = plan_job(JobText(job, tables, above), catalog, {}, library)
            catalog = with_objects(catalog, known)
        planned = plan_job(JobText(name, text, file), catalog, {}, library, traced=True)
    on_spark = (where or target_in(planned.settings, "embedded")) == "spark"
    if on_spark:
        check_statements(planned.sinks)
    stages = stages_on_spark(planned.sinks, planned.settings) if on_spark else []
    if output == "json":
        explained = explain_sinks_json(planned.sinks, planned.traces, None, name, stages)
        return json.dumps(explained, ensure_ascii=False)
    settings = planned.settings
    return explain_sinks(planned.sinks, planned.traces, None, name, settings, stages=stages)


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
            shown = reason_of(body) if key == "reason" else body[key]
            click.echo(f"{key:8} {shown}")
    for family in items_of(body, "families"):
        click.echo(f"family   of {family['members']}: {family['operation']}")
    draw_progress(body)
    click.echo(body["sql"])


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


@click.command()
@click.argument("name")
@server_options
def history(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """List all versions of a job."""
    body = connect(server, token_file).get(f"{job_url(name)}/history")
    show(body, output, lambda b: _draw_history(b, name))


def _draw_history(body: Json, name: str) -> None:
    versions = items_of(body, "versions")
    first = {str(v["sql"]): v["version"] for v in reversed(versions)}
    before = [None, *(str(v["sql"]) for v in versions)]
    shadows = ("shadow",) if any(v["shadow"] for v in versions) else ()
    rows = [
        (
            v["version"],
            moment(v["created_ms"]),
            origin_of(v, name),
            *(_fate_of(v) for _ in shadows),
            _text_of(v, first, sql),
        )
        for v, sql in zip(versions, before, strict=False)
    ]
    draw_table(("version", "created", "origin", *shadows, "text"), rows)


def _fate_of(version: Json) -> str:
    """Returns what became of a version that began as a shadow, '' for others."""
    if not version["shadow"]:
        return ""
    return f"{version['fate']} ({moment(version['fate_ms'])})" if version["fate"] else "it runs"


def _text_of(version: Json, first: Mapping[str, object], before: str | None) -> str:
    """The text of a version, or what is new in it since the text before; of one that was brought
    again, after a rollback or for new definitions, the version that had it first."""
    sql = str(version["sql"])
    if first[sql] != version["version"]:
        return f"as version {first[sql]}"
    lines, known = sql.splitlines(), (before or "").splitlines()
    if before is None:
        own = [line for line in lines if not line.lstrip().startswith("--")]
        return _shortened(" ".join(own or lines))
    new = [line for line in lines if line not in known]
    gone = [line for line in known if line not in lines]
    if not new:
        return _shortened(sql)
    return "+ " + _shortened(" ".join(new), " ".join(gone))


def _shortened(sql: str, before: str = "") -> str:
    """Returns the beginning of a text, or its part from where it differs from that before on, if
    that is farther behind."""
    line, known = " ".join(sql.split()), " ".join(before.split())
    pairs = zip(line, known, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if known and same > _SHOWN // 2 and len(line) > _SHOWN:
        line = "…" + line[min(same, len(line) - 1) - _LEAD :]
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


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
    body = connect(server, token_file).post(url, b"", version=version)
    show(body, output, draw_outcome)
