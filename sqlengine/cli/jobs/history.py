"""`sql history` and `sql rollback`: the versions of a job."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Final

import click

from sqlengine.cli.descriptions import moment, origin_of
from sqlengine.cli.options import server_options, show
from sqlengine.cli.outcomes import draw_outcome, items_of
from sqlengine.cli.tables import draw_table
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, job_url

# Characters of a text in a list, and those of them in front of what is new.
_SHOWN: Final = 80
_LEAD: Final = 20


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
