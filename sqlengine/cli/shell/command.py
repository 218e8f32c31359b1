"""`sql shell`: the command and its loop."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from sqlengine.cli.options import connection_options, rows_option
from sqlengine.cli.shell.backends import local_backend, server_backend
from sqlengine.cli.shell.interpreter import COMMANDS, Interpreter
from sqlengine.cli.shell.reading import piped_entries, typed_entries
from sqlengine.cli.waiting import connect


@click.command(short_help="Type statements, here or on a server.")
@click.option("--data", help="Data folder for topics, without a server (default: a temporary one).")
@rows_option("How rows are printed; \\format changes it.")
@connection_options
@click.pass_context
def shell(
    ctx: click.Context, data: str | None, output: str, server: str | None, token_file: str | None
) -> None:
    """Type statements and see their rows as they come.

    With --server they run on a server, as with 'sql query'; else in this process, as with 'sql
    run'. \\? lists the commands. Without a terminal it reads statements from standard input; the
    exit code is 1 when one failed."""
    if server is not None and data is not None:
        raise click.UsageError("--data is for a shell without --server")
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    with ExitStack() as stack:
        if server is not None:
            opened = server_backend(connect(server, token_file))
        else:
            scratch = data or stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlengine-"))
            opened = local_backend(Path(scratch).absolute())
        interpreter = Interpreter(stack.enter_context(opened), output, stack)
        if typed:
            click.echo(f"statements run on {interpreter.title}; \\? lists the commands, \\q ends")
        ctx.exit(interpreter.run(_entries(interpreter, typed=typed)))


def _entries(interpreter: Interpreter, *, typed: bool) -> Iterator[str]:
    if typed:
        return typed_entries(interpreter.names, [*COMMANDS])
    return piped_entries(sys.stdin)
