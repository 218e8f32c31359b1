"""The shell's entries and what becomes of them: statements for the backend, commands that begin
with a backslash."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Final

import click

from parser.errors import ServiceError, SqlError
from parser.script import split
from sqlengine.cli.shell.backends import Backend
from sqlengine.cli.shell.completion import Names
from sqlengine.cli.texts import read_text
from sqlengine.jobs.error_texts import rendered
from sqlengine.session.printers import PRINTERS


class Interpreter:
    """Takes entries one after the other. `stack` closes the file that rows go to."""

    def __init__(self, backend: Backend, output: str, stack: ExitStack) -> None:
        self.title = backend.title
        self.output = output
        self.timing = self.follow = False
        self._backend = backend
        self._stack = stack
        self._out: IO[str] | None = None
        self._names: Names | None = None
        self._last = ""
        self._failed = self._over = False

    def run(self, entries: Iterable[str]) -> int:
        """Takes entries until the last or \\q. Returns the exit code: 1 when one failed."""
        for entry in entries:
            self.take(entry)
            if self._over:
                break
        return int(self._failed)

    def take(self, entry: str) -> None:
        """Executes an entry, and shows its error. Ctrl-C ends a statement and not the shell."""
        text = entry.strip()
        try:
            if text.lower().rstrip("; ") in ("quit", "exit"):
                self._over = True
            elif text.lower().rstrip("; ") == "help":
                self.help("")
            elif text.startswith("\\"):
                self._command(text)
            else:
                self.statements(text)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
        except SqlError as error:
            self._show(error, None)

    def statements(self, text: str) -> None:
        """Executes statements one after the other, also those behind one that fails."""
        for piece in split(text):
            self._last = piece.sql + ";"
            began = time.perf_counter()
            try:
                self._backend.execute(
                    piece.sql, PRINTERS[self.output](self._out), follow=self.follow
                )
            except SqlError as error:
                self._show(error, piece.sql)
            self._names = None
            if self.timing:
                click.echo(f"{(time.perf_counter() - began) * 1000:,.0f} ms", err=True)

    def names(self) -> Names:
        """Returns the names for completion, as they are after the last statement."""
        if self._names is None:
            self._names = self._backend.names()
        return self._names

    def _show(self, error: SqlError, text: str | None) -> None:
        self._failed = True
        click.echo(rendered(error, text), err=True)

    # ---- commands --------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise ServiceError(f"there is no command {name}", hint="\\? lists the commands")
        command.run(self, argument.strip().rstrip(";").strip())

    def describe(self, name: str) -> None:
        self.statements(f"DESCRIBE {name}" if name else "SHOW TABLES")

    def describe_function(self, name: str) -> None:
        quoted = f"`{name}`" if name.isidentifier() else name  # UPPER is a reserved word
        self.statements(f"DESCRIBE FUNCTION EXTENDED {quoted}" if name else "SHOW FUNCTIONS")

    def edit(self, argument: str) -> None:
        edited = click.edit(self._last, extension=".sql")
        if edited is not None and edited.strip():
            click.echo(edited.rstrip())
            self.statements(edited)

    def set_timing(self, argument: str) -> None:
        self.timing = _switched(self.timing, argument, "\\timing")

    def set_follow(self, argument: str) -> None:
        self.follow = _switched(self.follow, argument, "\\follow")

    def set_format(self, argument: str) -> None:
        if argument not in PRINTERS:
            raise ServiceError(f"\\format takes one of {', '.join(PRINTERS)}")
        self.output = argument

    def write_to(self, path: str) -> None:
        """Lets rows go to a file, or to standard output again."""
        if self._out is not None:
            self._out.close()
        self._out = None
        if path:
            try:
                file = click.open_file(path, "w", encoding="utf-8")
                self._out = self._stack.enter_context(file)
            except OSError as error:
                raise ServiceError(f"'{path}' cannot be written", detail=error.strerror) from None

    def include(self, path: str) -> None:
        self.statements(read_text(path))

    def help(self, argument: str) -> None:
        width = max(len(f"{n} {c.argument}") for n, c in COMMANDS.items())
        for name, command in COMMANDS.items():
            click.echo(f"{name} {command.argument}".ljust(width + 2) + command.doc)
        click.echo("A statement ends with a semicolon. Ctrl-C ends a query, Ctrl-D the shell.")

    def end(self, argument: str) -> None:
        self._over = True


@dataclass(frozen=True)
class Command:
    """A command of the shell. `run` takes what stands behind its name."""

    argument: str
    doc: str
    run: Callable[[Interpreter, str], None]


def _statement(sql: str) -> Callable[[Interpreter, str], None]:
    return lambda interpreter, argument: interpreter.statements(f"{sql} {argument}")


COMMANDS: Final[Mapping[str, Command]] = {
    "\\d": Command("[NAME]", "tables and views, or the columns of one", Interpreter.describe),
    "\\d+": Command("NAME", "the CREATE TABLE of a table", _statement("SHOW CREATE TABLE")),
    "\\dt": Command("", "tables and views", _statement("SHOW TABLES")),
    "\\dv": Command("", "views", _statement("SHOW VIEWS")),
    "\\df": Command("[NAME]", "functions, or what one does", Interpreter.describe_function),
    "\\dj": Command("", "jobs of the server", _statement("SHOW JOBS")),
    "\\e": Command("", "edit the last statement in $EDITOR, and run it", Interpreter.edit),
    "\\i": Command("FILE", "run the statements of a file", Interpreter.include),
    "\\o": Command("[FILE]", "write rows to a file, or here again", Interpreter.write_to),
    "\\format": Command("table|json|csv", "how rows are printed", Interpreter.set_format),
    "\\timing": Command("[on|off]", "show the time of each statement", Interpreter.set_timing),
    "\\follow": Command(
        "[on|off]", "queries on a server go on with rows that come later", Interpreter.set_follow
    ),
    "\\?": Command("", "this list", Interpreter.help),
    "\\q": Command("", "end", Interpreter.end),
}


def _switched(before: bool, argument: str, name: str) -> bool:
    if argument not in ("", "on", "off"):
        raise ServiceError(f"{name} takes on or off")
    now = argument == "on" if argument else not before
    click.echo(f"{name} is {'on' if now else 'off'}", file=sys.stderr)
    return now
