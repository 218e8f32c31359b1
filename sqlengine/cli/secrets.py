"""`sql secrets`: passwords that stand plainly in texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from sqlengine.cli.options import server_options, show
from sqlengine.cli.texts import Texts, job_texts
from sqlengine.cli.waiting import connect
from sqlengine.client import Json, job_url


@click.group()
def secrets() -> None:
    """Passwords that are written plainly: check for them."""


@secrets.command()
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER]...")
@server_options
@click.pass_context
def check(
    ctx: click.Context,
    files: Sequence[str],
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Name passwords that are written plainly: in files, or without any in all jobs of the server.

    1 is the exit code where there are some."""
    texts = job_texts(files, None, ()) if files else _of_server(server, token_file)
    found = [place for name, (path, text) in texts.items() for place in _plain(name, path, text)]
    show({"plain": found}, output, _draw)
    ctx.exit(int(bool(found)))


def _of_server(server: str | None, token_file: str | None) -> Texts:
    """Returns the texts of all jobs, in which passwords have masks."""
    client = connect(server, token_file)
    body = client.get("/api/v1/jobs")
    jobs = body["jobs"]
    assert isinstance(jobs, list)
    names = [str(job["name"]) for job in jobs]
    return {name: (None, str(client.get(job_url(name))["sql"])) for name in names}


def _plain(name: str, path: str | None, text: str) -> Iterator[Json]:
    """Yields the options of a text that have plain passwords; those of comments, too."""
    from sqlengine.system.memory import importing

    with importing():
        from parser.places import Places
        from sqlengine.connectors.plain_secrets import option_values

    places = Places(text)
    for found in option_values(text):
        if found.spans:
            line, column = places.line_column(found.value.start)
            yield {
                "job": name,
                "file": path,
                "line": line,
                "column": column,
                "option": found.value.option,
                "table": found.value.owner,
                "hint": found.remedy,
            }


def _draw(body: Json) -> None:
    plain = body["plain"]
    assert isinstance(plain, list)
    for place in plain:
        where = f"{place['file'] or place['job']}:{place['line']}:{place['column']}"
        table = f" of table '{place['table']}'" if place["table"] else ""
        click.echo(f"{where}: '{place['option']}'{table} is written plainly")
    if plain:
        for hint in dict.fromkeys(place["hint"] for place in plain if place["hint"]):
            click.echo(f"hint: {hint}", err=True)
    else:
        click.echo("no passwords are written plainly", err=True)
