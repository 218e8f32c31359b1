"""`sql run`: scripts and statements, in this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from parser.errors import SqlError
from parser.script import substitute
from sqlengine.cli.limits import limit_option, use_limits
from sqlengine.cli.options import define_option, files_option, pairs, place_options
from sqlengine.cli.texts import definitions, read_text
from sqlengine.config import Cluster
from sqlengine.session import ROWS_PER_READ
from sqlengine.system.file_access import FileAccess
from sqlengine.system.log_lines import show_log
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.functions.library import Library
    from sqlengine.session.output import EventOutput, PrinterOutput
    from sqlengine.session.runner import Runner
    from sqlengine.session.session import Session

    Shown: TypeAlias = PrinterOutput | EventOutput
# A text with its file; None for standard input and the command line.
Text: TypeAlias = tuple[str | None, str]


# The exit code of a process that Ctrl-C has ended, as shells give it.
_CUT_OFF: Final = 130


@click.command(short_help="Run a script in this process.")
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "-e",
    "--execute",
    "statements",
    multiple=True,
    metavar="SQL",
    help="Statements to run, behind those of FILE if there is one; may be repeated.",
)
@define_option
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=ROWS_PER_READ,
    show_default=True,
    help="Rows a read.",
)
@place_options
@click.option(
    "--output",
    type=click.Choice(["table", "json", "events"]),
    default="table",
    show_default=True,
    help="'json' is an object a row, 'events' one for all that happens, for programs.",
)
@click.option("--data", help="Data folder for topics (default: a temporary one).")
@files_option("script")
@limit_option
@click.option(
    "--verbose", is_flag=True, help="Show more: what Spark prints, and traces of what fails."
)
@click.pass_context
def run(
    ctx: click.Context,
    file: str | None,
    statements: Sequence[str],
    define: Sequence[str],
    batch_size: int,
    where: str,
    master: str | None,
    spark_conf: tuple[str, ...],
    output: str,
    data: str | None,
    files: tuple[Path, ...],
    limits: tuple[str, ...],
    verbose: bool,
) -> None:
    """Run a script in this process, statement by statement; '-' is standard input.

    It ends when all sources are read to their end, or with Ctrl-C. A statement in error does not
    keep the next ones from running; the exit code is 1 then, and 130 after Ctrl-C in one that
    would have come to its end. Relative paths, also those in tables,
    are below the working folder."""
    if file is None and not statements:
        raise click.UsageError("Missing argument 'FILE', or -e SQL.")
    if where != "spark" and (master or spark_conf):
        raise click.UsageError("--master and --spark-conf need --on spark")
    use_limits(limits)
    show_log(verbose=verbose)
    texts = list(_texts(file, statements, define))
    access = script_files((*files, *_named(define)), file)
    cluster = Cluster(master, pairs("--spark-conf", spark_conf))
    ctx.exit(_run_texts(texts, batch_size, where, output, data, access, cluster, verbose=verbose))


def script_files(given: Sequence[Path], file: str | None) -> FileAccess:
    """Returns the files that a script may use: below the folders that are given, its own, and the
    working folder."""
    own = [] if file in (None, "-") else [Path(str(file)).resolve().parent]
    folders = [folder.absolute() for folder in given]
    return FileAccess((*folders, *own, Path.cwd()), command="sql run")


def _named(define: Sequence[str]) -> Iterator[Path]:
    """Yields the files and folders that -D names: who types a path means it."""
    for value in definitions(define).values():
        if "\0" not in value and (os.path.isabs(value) or os.path.exists(value)):
            yield Path(value)


def _texts(file: str | None, statements: Sequence[str], define: Sequence[str]) -> Iterator[Text]:
    values = definitions(define)
    if file is not None:
        name = None if file == "-" else file
        try:
            yield name, substitute(read_text(file), values)
        except SqlError as error:
            raise error.in_file(name) from None
    for text in statements:
        yield None, substitute(text, values)


def _run_texts(
    texts: Sequence[Text],
    batch_size: int,
    where: str,
    output: str,
    data: str | None,
    files: FileAccess,
    cluster: Cluster,
    *,
    verbose: bool,
) -> int:
    """Runs the texts; returns the exit code."""
    from sqlengine.system.memory import importing

    with importing():
        from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
        from sqlengine.session.environment import open_runner, script_library
        from sqlengine.session.session import Session  # noqa: F401  with all that it imports

    shown, set_aside = _output(output), RowsSetAside()
    with tempfile.TemporaryDirectory(prefix="sqlengine-") as scratch, ExitStack() as stack:
        folder = Path(data or scratch).absolute()
        runner = stack.enter_context(
            open_runner(folder, batch_size, where, set_aside, files, cluster, verbose=verbose)
        )
        library = stack.enter_context(script_library(folder, texts[0][0]))
        session, cut_off = _session(runner, shown, library), False
        try:
            _run_all(session, shown, texts)
        except KeyboardInterrupt as stopped:
            shown.flush()
            cut_off = _tell_interruption(stopped) and where != "spark"
        shown.end()
        if set_aside.rows:
            rows = count(set_aside.rows, "row")
            click.echo(f"{rows} in error set aside; the first: {set_aside.first}", err=True)
        return _CUT_OFF if cut_off else 0 if session.good else 1


def _output(name: str) -> Shown:
    from sqlengine.session.output import EventOutput, PrinterOutput
    from sqlengine.session.printers import PRINTERS

    if name == "events":
        return EventOutput()
    return PrinterOutput(PRINTERS[name](None), messages=name == "table")


def _session(runner: Runner, shown: Shown, library: Library) -> Session:
    from planner.catalog import Catalog
    from sqlengine.jobs.planning import with_entry_points
    from sqlengine.jobs.unknown_options import UnknownOptions
    from sqlengine.session.session import Session

    return Session(
        runner,
        shown,
        with_entry_points(Catalog(), library),
        library=library,
        options=UnknownOptions(lambda note: click.echo(f"warning: {note}", err=True)),
    )


def _run_all(session: Session, shown: Shown, texts: Sequence[Text]) -> None:
    for file, text in texts:
        shown.text = text
        session.run(text, file)


def _tell_interruption(stopped: KeyboardInterrupt) -> bool:
    """Says how far it came; returns True if something is missing: what has no end ends so."""
    from sqlengine.session.runner import Interrupted

    read = f" after {count(stopped.rows, 'row')}" if isinstance(stopped, Interrupted) else ""
    click.echo(f"interrupted{read}", err=True)
    return not isinstance(stopped, Interrupted) or stopped.ends
