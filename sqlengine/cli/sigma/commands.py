"""`sql sigma`: rules of Sigma as jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sqlengine.cli.messages import output_option
from sqlengine.cli.options import server_options, show
from sqlengine.cli.tables import draw_table
from sqlengine.client import Json
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.sigma.folder import Folder

F = TypeVar("F", bound=Callable[..., object])


@click.group()
def sigma() -> None:
    """Rules of Sigma: convert, submit, check them.

    FOLDER has them as .yml and .yaml files, its mapping of log sources to tables as _sigma.yaml and
    the tables as _tables.sql."""


def folder_arguments(command: F) -> F:
    """FOLDER, --mapping and --tables."""
    command = click.option(
        "--tables",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Script that defines the tables (default: _tables.sql in FOLDER).",
    )(command)
    text = (
        "A file, or one of the package; may be repeated (default: _sigma.yaml in FOLDER, else"
        " sigma)."
    )
    command = click.option("--mapping", "named", multiple=True, help=text)(command)
    path = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.argument("folder", type=path)(command)


@sigma.command()
@folder_arguments
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a .sql file of each rule.",
)
@output_option(["table", "json"], "'json' is for programs; errors are JSON, too.")
@click.pass_context
def convert(
    ctx: click.Context,
    folder: Path,
    named: Sequence[str],
    tables: Path | None,
    out: Path,
    output: str,
) -> None:
    """Write each rule as a file of SQL, beside the tables, and name those that cannot be converted.

    1 is the exit code where there are some."""
    from sqlengine.cli.texts import read_text
    from sqlengine.sigma.files import TABLES

    found = _converted(folder, named, tables)
    out.mkdir(parents=True, exist_ok=True)
    (out / TABLES).write_text(read_text(str(tables or folder / TABLES)), encoding="utf-8")
    for done in found.conversion.converted:
        (out / f"{done.job}.sql").write_text(done.sql, encoding="utf-8")
    show(_as_json(found), output, _draw)
    ctx.exit(int(bool(found.conversion.refused)))


@sigma.command(short_help="Convert rules and submit them to the server, in one change.")
@folder_arguments
@server_options
@click.pass_context
def submit(
    ctx: click.Context,
    folder: Path,
    named: Sequence[str],
    tables: Path | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Convert rules and submit them to the server, with their tables, in one change.

    Rules that cannot be converted are named; the others take effect together. 1 is the exit code
    where one was not converted, or was refused."""
    from sqlengine.cli.jobs.submitting import send
    from sqlengine.cli.texts import read_text
    from sqlengine.cli.waiting import connect
    from sqlengine.sigma.files import TABLES

    found = _converted(folder, named, tables)
    script = tables or folder / TABLES
    name = script.stem.replace(" ", "_")
    texts: dict[str, tuple[str | None, str]] = {name: (str(script), read_text(str(script)))}
    texts |= {d.job: (None, d.sql) for d in found.conversion.converted}
    for done in found.conversion.refused:
        click.echo(f"{done.about.file}: not converted: {done.error}", err=True)
    code = send(connect(server, token_file), texts, {}, output)
    ctx.exit(code or int(bool(found.conversion.refused)))


@sigma.command()
@folder_arguments
@output_option(["table", "json"], "'json' is for programs; errors are JSON, too.")
@click.pass_context
def lint(
    ctx: click.Context, folder: Path, named: Sequence[str], tables: Path | None, output: str
) -> None:
    """Name the rules that cannot be converted, and what is doubtful about others.

    1 is the exit code where one cannot be converted."""
    from sqlengine.sigma.lint import lint as found_in

    findings = found_in(_converted(folder, named, tables))
    items: list[Json] = [
        {
            "file": f.about.file,
            "title": f.about.title,
            "id": f.about.id,
            "kind": "error" if f.wrong else "warning",
            "text": f.text,
        }
        for f in findings
    ]
    show({"findings": items}, output, lambda _: _draw_findings(items))
    ctx.exit(int(any(f.wrong for f in findings)))


def _draw_findings(items: Sequence[Json]) -> None:
    if items:
        columns = ("file", "kind", "text")
        draw_table(columns, [[i[c] for c in columns] for i in items])
    else:
        click.echo("nothing is doubtful", err=True)


def _converted(folder: Path, named: Sequence[str], tables: Path | None) -> Folder:
    from sqlengine.system.memory import importing

    with importing():
        from sqlengine.sigma.folder import convert_folder
    return convert_folder(folder, named, tables)


def _as_json(found: Folder) -> Json:
    """Returns all rules, each with its job or with the reason why it is none."""
    rules = [
        {
            "file": done.about.file,
            "title": done.about.title,
            "id": done.about.id,
            "job": done.job,
            "status": "converted" if done.error is None else "not converted",
            "reason": "" if done.error is None else done.error.with_hint,
        }
        for done in sorted(found.conversion.done, key=lambda d: d.about.origin)
    ]
    converted = len(found.conversion.converted)
    return {"converted": converted, "not_converted": len(rules) - converted, "rules": rules}


def _draw(body: Json) -> None:
    """Draws the rules that are no jobs, and how many are."""
    rules = body["rules"]
    assert isinstance(rules, list)
    refused = [(r["file"], r["title"], r["reason"]) for r in rules if r["reason"]]
    if refused:
        draw_table(("file", "title", "not converted because"), refused)
    share = len(rules) - len(refused)
    click.echo(f"{share:,} of {count(len(rules), 'rule')} converted", err=True)
