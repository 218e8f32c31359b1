"""Errors of the commands, on standard error: for people, or where `--output json` asks for the
server's answer, as that answer has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click

from parser.errors import SqlError, as_json
from sqlengine.client import Json, Refused
from sqlengine.jobs.error_texts import rendered

F = TypeVar("F", bound=Callable[..., object])
_FORM: Final = "sqlengine.output"


def output_option(kinds: Sequence[str], text: str) -> Callable[[F], F]:
    """--output; errors take the form that it names."""

    def keep(ctx: click.Context, _: click.Parameter, value: str) -> str:
        ctx.meta[_FORM] = value
        return value

    kind = click.Choice(list(kinds))
    return click.option(
        "--output", type=kind, default="table", show_default=True, help=text, callback=keep
    )


def show_error(error: SqlError, text: str | None = None) -> None:
    """Shows an error; `text` is that of the statements, for the caret."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_FORM) == "json":
        click.echo(json.dumps(error_json(error), ensure_ascii=False), err=True)
    else:
        click.echo(rendered(error, text), err=True)


def error_json(error: SqlError) -> Json:
    """Returns an error for programs, one of the server as the server told it."""
    body = as_json(error)
    if isinstance(error, Refused):  # it has the server's type and status
        return {**body, **error.body, **({"file": f} if (f := body.get("file")) else {})}
    return body
