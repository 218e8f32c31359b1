"""`sql history` and `sql rollback`: the versions of a job."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sqlengine.cli.descriptions import moment, origin_of
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import draw_outcome, items_of
from sqlengine.cli.tables import draw_table
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, job_url


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
    new = [line for line in lines if line not in known]
    if before is None:
        new = [line for line in lines if not line.lstrip().startswith("--")] or lines
    return ("+ " if before is not None and new else "") + _shortened(" ".join(new or lines))


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
    body = connect(server, token_file).post(url, b"", version=version)
    show(body, output, draw_outcome)
