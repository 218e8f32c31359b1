"""The command line: `sql`, and `sqlengine` as a second name.

Exit codes: 0 done, 1 SQL or job error, 2 usage, 3 server unreachable."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from parser.errors import SqlError
from sqlengine.system.terminal import visible_output

# Command -> its module in `sqlengine.cli`, in the order of the help. The function has the name of
# the command, with an underscore for a hyphen.
MODULES = {
    "serve": "serve",
    "run": "run",
    "submit": "jobs.submitting",
    "validate": "jobs.submitting",
    "test": "rules.testing",
    "why": "rules.why",
    "lint": "rules.linting",
    "backtest": "rules.backtest",
    "explain": "jobs.explaining",
    "jobs": "jobs.listing",
    "remove": "jobs.submitting",
    "diff": "rules.shadows",
    "promote": "rules.shadows",
    "history": "jobs.history",
    "rollback": "jobs.history",
    "start": "state",
    "stop": "state",
    "isolate": "state",
    "merge": "state",
    "move": "state",
    "reload": "state",
    "savepoint": "state",
    "state": "state",
    "execute": "state",
    "query": "query",
    "shell": "shell.command",
    "dead-letters": "dead_letters",
    "secrets": "secrets",
    "sigma": "sigma.commands",
    "instances": "instances",
    "spark": "instances",
    "access": "access",
    "audit": "audit",
    "topic": "topics",
    "tail": "topic_records",
}


# What other tools call these commands.
_MEANT: Final = {
    **dict.fromkeys(("list", "ls", "status", "ps"), "jobs"),
    **dict.fromkeys(("delete", "rm", "drop", "cancel"), "remove"),
    **dict.fromkeys(("add", "deploy", "apply"), "submit"),
    **dict.fromkeys(("check",), "validate"),
    **dict.fromkeys(("server", "up"), "serve"),
    **dict.fromkeys(("consume", "follow"), "tail"),
    "produce": "topic write",
    "select": "query",
    "repl": "shell",
}


class LazyGroup(click.Group):
    """Loads the module of a command when it is used. Shows a SqlError as people want to see it, and
    exits with its code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        module = import_module(f"{__package__}.{MODULES[cmd_name]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; names one that is probably meant by what is none."""
        name = args[0]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = _MEANT.get(name) or next(iter(get_close_matches(name, MODULES, 1)), None)
            if near is None:
                raise
            told = f"{error.message} Did you mean '{near}'?"
            raise click.UsageError(told, ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        from sqlengine.broker.errors import Unreachable
        from sqlengine.cli.messages import show_error

        try:
            return super().invoke(ctx)
        except Unreachable as error:
            show_error(error)
            ctx.exit(3)
        except SqlError as error:
            show_error(error, _text_of(error))
            ctx.exit(1)
        except BrokenPipeError:
            ctx.exit(0)


def _text_of(error: SqlError) -> str | None:
    """Returns the text of the error's file, for the caret; None if it cannot be read."""
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
  sql query "SELECT …"        look into a table of the server
  sql shell --server …        do so interactively; without --server in this process

\b
Exit codes: 0 done, 1 an error in SQL or of a job, 2 wrong usage, 3 no server."""


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlengine")
def cli() -> None:
    """Streaming SQL: run scripts here, or serve jobs that change while they run."""


def main(args: Sequence[str] | None = None) -> None:
    """Console script."""
    with visible_output():
        cli.main(args=list(args) if args is not None else None, prog_name="sql")
