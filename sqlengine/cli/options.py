"""Options that several commands have, and how they show what the server answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click

from sqlengine.cli.messages import output_option
from sqlengine.cli.waiting import TLS
from sqlengine.client import Json
from sqlengine.session.printers import PRINTERS
from sqlengine.system.client_tls import ClientTls

F = TypeVar("F", bound=Callable[..., object])


def connection_options(command: F) -> F:
    """--server and --token-file, and the files of TLS, which `connect` finds in the context."""
    url = (
        "HOST:PORT or URL of the server, or unix:PATH (default: SQLENGINE_SERVER, else the socket"
        " in the data folder, else 127.0.0.1:8083)."
    )
    for option, field, text in _TLS_FILES:
        command = click.option(
            option,
            type=click.Path(exists=True, dir_okay=False),
            expose_value=False,
            callback=partial(_keep, field),
            help=text,
        )(command)
    command = click.option("--server", help=url)(command)
    return click.option("--token-file", help="File with the server's token (or SQLENGINE_TOKEN).")(
        command
    )


_TLS_FILES: Final = (
    ("--client-key", "key", "Key of --client-cert (or SQLENGINE_CLIENT_KEY)."),
    (
        "--client-cert",
        "certificate",
        "Certificate for a server that asks for one (or SQLENGINE_CLIENT_CERT).",
    ),
    ("--ca-file", "ca_file", "Authorities whose certificates to trust (or SQLENGINE_CA_FILE)."),
)


def _keep(field: str, ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Puts a file of TLS into the context."""
    if value is not None:
        ctx.meta[TLS] = replace(ctx.meta.get(TLS, ClientTls()), **{field: value})


def server_options(command: F) -> F:
    """--server, --token-file and --output, as all commands that talk to a server have them."""
    text = "'json' is the server's answer, for programs; errors are JSON, too."
    return output_option(["table", "json"], text)(connection_options(command))


def show(body: Json, output: str, draw: Callable[[Json], None]) -> None:
    """The server's answer as JSON, or drawn."""
    if output == "json":
        click.echo(json.dumps(body, ensure_ascii=False))
    else:
        draw(body)


def files_argument(command: F) -> F:
    """FILES, for commands that take scripts."""
    path = click.Path(exists=True, allow_dash=True)
    return click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER...", type=path)(
        command
    )


def savepoint_option(command: F) -> F:
    """--savepoint, for commands that start a job."""
    text = "Start from this savepoint: its path, or its name ('sql savepoint list')."
    return click.option("--savepoint", metavar="PATH", help=text)(command)


def path_for_server(path: str | None) -> str | None:
    """A path as the server understands it, which runs in another folder; a name is one there."""
    return str(Path(path).absolute()) if path and "/" in path and "://" not in path else path


def define_option(command: F) -> F:
    """-D NAME=VALUE."""
    text = "Replaces ${NAME} in the text; may be repeated."
    return click.option("-D", "define", multiple=True, metavar="NAME=VALUE", help=text)(command)


def functions_option(command: F) -> F:
    """--functions DIR, for commands that send jobs to a server."""
    path = click.Path(exists=True, file_okay=False)
    text = "Send the Python modules of this folder with the jobs (to a server with --uploads)."
    return click.option("--functions", type=path, help=text)(command)


def rows_option(text: str) -> Callable[[F], F]:
    """--output, for commands that print the rows of statements."""
    forms = click.Choice(list(PRINTERS))
    return click.option("--output", type=forms, default="table", show_default=True, help=text)


def spark_options(command: F) -> F:
    """--master and --spark-conf, for commands that start Spark."""
    command = click.option(
        "--spark-conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="Setting of Spark, such as spark.executor.memory=4g; may be repeated.",
    )(command)
    text = "Spark's master, such as spark://HOST:7077 (default: this machine)."
    return click.option("--master", help=text)(command)


def place_options(command: F) -> F:
    """--on with --master and --spark-conf, for commands that run a graph of their own."""
    text = "What runs the operators."
    places = click.Choice(["embedded", "spark"])
    option = click.option(
        "--on", "where", type=places, default="embedded", show_default=True, help=text
    )
    return option(spark_options(command))


def files_option(given: str) -> Callable[[F], F]:
    """--files, for commands whose tables may have files below the folders of what they are
    `given`."""
    text = f"Folder below which tables may have files, besides those of {given} and command."
    return click.option("--files", multiple=True, type=click.Path(path_type=Path), help=text)


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """Returns the values of a repeated option by their names. UsageError for one that is no
    NAME=VALUE."""
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option} '{text}' is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
