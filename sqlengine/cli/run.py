"""`sql run`: a script, in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from parser.errors import SqlError
from parser.script import substitute
from sqlengine.cli.jobs import define_option
from sqlengine.cli.texts import definitions, read_text


@click.command(short_help="Run a script in this process.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@define_option
@click.option(
    "--batch-size", type=click.IntRange(1), default=4096, show_default=True, help="Rows a read."
)
@click.option(
    "--on",
    "where",
    type=click.Choice(["embedded", "spark"]),
    default="embedded",
    show_default=True,
    help="What runs the operators.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json", "events"]),
    default="table",
    show_default=True,
    help="'json' is an object a row, 'events' one for all that happens, for programs.",
)
@click.option("--data", help="Data folder for topics (default: a temporary one).")
@click.pass_context
def run(
    ctx: click.Context,
    file: str,
    define: Sequence[str],
    batch_size: int,
    where: str,
    output: str,
    data: str | None,
) -> None:
    """Run a script in this process, statement by statement; '-' is standard input.

    It ends when all sources are read to their end, or with Ctrl-C. A statement in error does not
    keep the next ones from running; the exit code is 1 then."""
    name = None if file == "-" else file
    try:
        text = substitute(read_text(file), definitions(define))
    except SqlError as error:
        raise error.in_file(name) from None
    ctx.exit(0 if _run_script(text, name, batch_size, where, output, data) else 1)


def _run_script(
    text: str, file: str | None, batch_size: int, where: str, output: str, data: str | None
) -> bool:
    from planner.catalog import Catalog
    from sqlengine.jobs.planning import with_entry_points
    from sqlengine.session.environment import open_runner, script_library
    from sqlengine.session.output import EventOutput, JsonOutput, TableOutput
    from sqlengine.session.session import Session

    shown: TableOutput | JsonOutput | EventOutput
    if output == "table":
        shown = TableOutput(text)
    else:
        shown = JsonOutput(text) if output == "json" else EventOutput()
    with tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch, ExitStack() as stack:
        folder = Path(data or scratch).absolute()
        runner = stack.enter_context(open_runner(folder, batch_size, where))
        library = stack.enter_context(script_library(folder, file))
        try:
            catalog = with_entry_points(Catalog(), library)
            good = Session(runner, shown, catalog, library=library).run(text, file)
        except KeyboardInterrupt:
            good = True
        if isinstance(shown, TableOutput):
            shown.flush()
        return good
