"""The command line: `sql`, and `sqlengine` as a second name.

Exit codes: 0 done, 1 SQL or job error, 2 usage, 3 server unreachable."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from parser.errors import SqlError, render
from sqlengine.cli.instances import instances
from sqlengine.cli.jobs import JOB_COMMANDS, define_option
from sqlengine.cli.letters import dead_letters
from sqlengine.cli.state import STATE_COMMANDS
from sqlengine.cli.texts import definitions, read_text
from sqlengine.cli.topics import tail, topic
from sqlengine.cli.values import SIZE
from sqlengine.config import Config, data_folder, function_limits, token_from
from sqlengine.system.durability import Checkpoints, Delivery, Fsync


class Group(click.Group):
    """Shows SqlErrors as people want to see them and exits with their code. Help lists the commands
    in the order in which they are met."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        from sqlengine.client import Unreachable

        try:
            return super().invoke(ctx)
        except Unreachable as error:
            click.echo(render(error), err=True)
            ctx.exit(3)
        except SqlError as error:
            click.echo(render(error, _text_of(error)), err=True)
            ctx.exit(1)
        except BrokenPipeError:
            ctx.exit(0)


def _text_of(error: SqlError) -> str | None:
    """The file that the error is in, for the caret."""
    if error.position is None or error.position.file is None:
        return None
    try:
        return Path(error.position.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


EPILOG = """\b
To begin:
  sql run script.sql          read, filter and print, in this process
  sql serve                   run the server; the others talk to it
  sql submit rule.sql         give it a job; again, to replace the job
  sql tail alerts             see what comes out

\b
Exit codes: 0 done, 1 an error in SQL or of a job, 2 wrong usage, 3 no server."""


@click.group(cls=Group, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlengine")
def cli() -> None:
    """Streaming SQL: run scripts here, or serve jobs that change while they run."""


@cli.command(short_help="Run the server.")
@click.option("--data", help="Data folder (default: SQLENGINE_DATA, else ./data).")
@click.option(
    "--jobs",
    type=click.Path(path_type=Path),
    help="Watched folder of .sql files (default: DATA/jobs).",
)
@click.option(
    "--functions",
    type=click.Path(path_type=Path),
    help="Folder of Python modules (default: DATA/functions).",
)
@click.option(
    "--uploads", is_flag=True, help="Requests may bring Python modules with a job's text."
)
@click.option(
    "--function-seconds",
    type=click.FloatRange(0.01),
    help="Time of a user's function for a row (default: 1).",
)
@click.option(
    "--function-memory",
    type=click.IntRange(1),
    help="Memory of a module of users, in MB (default: 512).",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Others than this machine need a token."
)
@click.option(
    "--port",
    default=8083,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes a free one.",
)
@click.option(
    "--token-file", help="File with the token that requests must carry (or SQLENGINE_TOKEN)."
)
@click.option(
    "--fsync",
    type=click.Choice(["none", "interval", "epoch"]),
    default="none",
    show_default=True,
    help="When files are forced to disk: 'none' is safe while the machine has power.",
)
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "at-least-once"]),
    default="exactly-once",
    show_default=True,
    help="Whether a crash may give rows a second time.",
)
@click.option(
    "--checkpoints",
    type=click.Choice(["rocksdb", "topic"]),
    default="rocksdb",
    show_default=True,
    help="Where checkpoints are kept.",
)
@click.option(
    "--instances",
    "processes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Processes that run jobs in parts, where they can be divided.",
)
@click.option(
    "--parts",
    type=click.IntRange(1, 128),
    help=(
        "Parts that instances share out; fixed when they first start (default: one for each, two at"
        " least)."
    ),
)
@click.option(
    "--batch-size", type=click.IntRange(1), default=4096, show_default=True, help="Rows a read."
)
@click.option(
    "--client-rate",
    type=SIZE,
    help="What a client may append to topics a second, such as 10MB (default: any).",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder on another disk to which shards of topics may be moved; may be repeated.",
)
@click.option(
    "--savepoints",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder in which savepoints may be, besides DATA/savepoints; may be repeated.",
)
@click.option(
    "--memory-limit",
    type=SIZE,
    help="State of all jobs, such as 512MB: above it the largest job is stopped.",
)
@click.option(
    "--isolation/--no-isolation",
    default=True,
    show_default=True,
    help="Take jobs that hold others up into graphs of their own, and bring them back.",
)
def serve(
    data: str | None,
    jobs: Path | None,
    functions: Path | None,
    uploads: bool,
    function_seconds: float | None,
    function_memory: int | None,
    host: str,
    port: int,
    token_file: str | None,
    fsync: Fsync,
    delivery: Delivery,
    checkpoints: Checkpoints,
    processes: int,
    parts: int | None,
    batch_size: int,
    client_rate: int | None,
    volumes: tuple[Path, ...],
    savepoints: tuple[Path, ...],
    memory_limit: int | None,
    isolation: bool,
) -> None:
    """Run the server: REST, watched folder, command topic, embedded broker."""
    from sqlengine.system.memory import forget_pandas, importing

    forget_pandas()  # before the service's imports, which convert values
    with importing():
        from sqlengine.service import serve as run_server

    token = token_from(token_file)
    folder = data_folder(data)
    config = Config(
        data=folder,
        jobs=jobs,
        functions=functions,
        uploads=uploads,
        function_limits=function_limits(function_seconds, function_memory),
        fsync=fsync,
        delivery=delivery,
        checkpoints=checkpoints,
        instances=processes,
        parts=parts,
        host=host,
        port=port,
        token=token,
        rows_per_read=batch_size,
        client_rate=client_rate or None,
        volumes=volumes,
        savepoints=savepoints,
        memory_limit=memory_limit or None,
        isolation=isolation,
    )
    run_server(config)


@cli.command(short_help="Run a script in this process.")
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
    from parser.script import substitute

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
        folder = Path(data) if data else Path(scratch)
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


for command in (*JOB_COMMANDS, *STATE_COMMANDS, dead_letters, instances, topic, tail):
    cli.add_command(command)


def main(args: Sequence[str] | None = None) -> None:
    """Console script."""
    cli.main(args=list(args) if args is not None else None, prog_name="sql")
