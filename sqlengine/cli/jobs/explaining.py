"""`sql explain`: the plan of a file, or of a job of a running server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from sqlengine.cli.options import define_option, server_options
from sqlengine.cli.texts import job_texts, tables_above
from sqlengine.cli.waiting import connect
from sqlengine.client import job_url
from sqlengine.config import Target
from sqlengine.jobs.targets import TARGETS, target_in


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
