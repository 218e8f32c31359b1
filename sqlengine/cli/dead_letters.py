"""`sql dead-letters`: what could not be processed, where and why; and its replay."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from parser.errors import Position, SqlError, render
from sqlengine.cli.descriptions import moment
from sqlengine.cli.options import server_options, show
from sqlengine.cli.waiting import connect
from sqlengine.client import Client, Json, job_url
from sqlengine.system.sizes import moment_ms
from sqlengine.system.words import count

LETTERS = "/api/v1/dead-letters"
_PAYLOAD = 200
_SHOWN = 10
_DEFAULT = "default_catalog.default_database."
_PAUSE_S = 0.5


@click.command("dead-letters")
@click.argument("job", required=False)
@click.option("--table", help="Only those of one table.")
@click.option(
    "--since", help="Only younger ones: '10 min', '1 h', or a time such as 2026-01-31T12:00."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="At most so many, the last ones.",
)
@click.option("--follow", is_flag=True, help="Wait for more.")
@click.option("--replay", is_flag=True, help="Give their records to the job again, once each.")
@click.option(
    "--id",
    "ids",
    multiple=True,
    type=int,
    help="With --replay: only this letter (more than once: these).",
)
@server_options
@click.pass_context
def dead_letters(
    ctx: click.Context,
    job: str | None,
    table: str | None,
    since: str | None,
    limit: int,
    follow: bool,
    replay: bool,
    ids: Sequence[int],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Show rows that could not be processed, or replay them.

    Of one JOB, or of all jobs. A replay comes after the job, or the definition of its table, was
    put right."""
    client = connect(server, token_file)
    if replay:
        if job is None:
            raise click.UsageError("--replay needs the name of the job")
        ctx.exit(_replay(client, job, ids, ctx, limit, output))
    if ids:
        raise click.UsageError("--id goes with --replay")
    query: Json = {
        "table": table,
        "since": None if since is None else _moment(since),
        "limit": limit,
    }
    url = LETTERS if job is None else f"{job_url(job)}/dead-letters"
    body = client.get(url, **query)
    show(body, output, _draw)
    if not body["letters"] and output != "json":
        click.echo("no dead letters", err=True)
    while follow:
        time.sleep(_PAUSE_S)
        body = client.get(url, **{**query, "after": body["next"]})
        if body["letters"]:
            show(body, output, _draw)


def _replay(
    client: Client, job: str, ids: Sequence[int], ctx: click.Context, limit: int, output: str
) -> int:
    """The exit code: 1 where a letter was refused, or a row failed again."""
    given = ctx.get_parameter_source("limit") is not click.core.ParameterSource.DEFAULT
    body = client.post(
        f"{job_url(job)}/dead-letters/replay",
        {"ids": list(ids)} if ids else b"",
        limit=limit if given else None,
    )
    show(body, output, _draw_replayed)
    return 1 if body["refused"] or body.get("failed") else 0


def _draw_replayed(body: Json) -> None:
    done, refused = body["replayed"], body["refused"]
    assert isinstance(done, list)
    assert isinstance(refused, list)
    click.echo(
        f"{body['job']}: {count(len(done), 'letter')} replayed"
        + (f" in epoch {body['epoch']}" if done else "")
    )
    failed = body.get("failed")
    if isinstance(failed, list) and failed:
        _tell_failed(str(body["job"]), failed)
    for item in refused:
        click.echo(f"  letter {item['id']} is not: {item['reason']}", err=True)


def _tell_failed(job: str, letters: Sequence[object]) -> None:
    """Tells that rows failed again, and which letters say why."""
    again = f"{count(len(letters), 'row')} failed again: letter{'s' * (len(letters) > 1)}"
    shown = ", ".join(map(str, letters[:_SHOWN])) + " …" * (len(letters) > _SHOWN)
    click.echo(f"  {again} {shown} ('sql dead-letters {job}')", err=True)


def _draw(body: Json) -> None:
    letters = body["letters"]
    assert isinstance(letters, list)
    for letter in letters:
        click.echo(describe(letter))


def describe(letter: Json) -> str:
    """A letter for people: whose, the place with a caret, the reason, the record and its place."""
    owner = (
        f"job {letter['job']}, version {letter['version']}"
        if letter["job"]
        else f"table {_table(letter)}"
    )
    replayed = letter["replayed"]
    again = (
        f", replayed for {', '.join(map(str, replayed))}"
        if isinstance(replayed, list) and replayed
        else ""
    )
    position = None
    if letter.get("line"):
        position = Position(
            _number(letter["line"]), _number(letter["column"]), _number(letter["length"])
        )
    text = letter.get("sql")
    error = SetAside(str(letter["reason"]), detail=_detail(letter), position=position)
    return (
        f"letter {letter['id']}, {moment(letter['time'])},"
        f" {owner}{again}\n{render(error, text if isinstance(text, str) else None)}\n"
    )


class SetAside(SqlError):
    """A row that became a dead letter; the job went on."""

    title = "row set aside"


def _detail(letter: Json) -> str:
    payload = str(letter["payload"])
    shown = payload if len(payload) <= _PAYLOAD else payload[:_PAYLOAD] + "…"
    watermark = str(letter["subject"]).startswith("WATERMARK FOR ")
    expression = f"in {letter['subject']}; " if letter["job"] or watermark else ""
    if letter["shard"] is None:
        return f"{expression}row {shown} (the record that it came from is not known)"
    of = f" of '{letter['stored']}'" if letter["stored"] else ""
    return f"{expression}record {letter['offset']} of shard {letter['shard']}{of}: {shown}"


def _table(letter: Json) -> str:
    """The table's name, as short as it can be written from elsewhere."""
    return str(letter.get("table") or letter["subject"]).removeprefix(_DEFAULT)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _moment(text: str) -> int:
    """ms since 1970 of a time, or of so long ago."""
    from sqlengine.formats.options import duration

    try:
        return time.time_ns() // 1_000_000 - duration(text)
    except ValueError:
        pass
    try:
        return moment_ms(text)
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is neither a duration nor a time", param_hint="--since"
        ) from None
