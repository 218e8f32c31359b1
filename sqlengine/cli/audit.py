"""`sql audit`: the audit log of a server, whether it runs or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from parser.errors import ServiceError
from sqlengine.access.audit.chain import Fault, Link, verify
from sqlengine.access.audit.log import FOLDER, files_in
from sqlengine.cli.tables import draw_table
from sqlengine.client import Json
from sqlengine.config import data_folder

_DATA = click.option("--data", help="Data folder (default: SQLENGINE_DATA, else ./data).")


@click.group(short_help="Verify and show the audit log.")
def audit() -> None:
    """Verify and show the log of who changed or read what (DATA/audit)."""


@audit.command("verify")
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--expect",
    metavar="NUMBER:HASH",
    help="A line that must be there, as 'verify' has printed it before.",
)
@_DATA
def verify_(file: Path | None, expect: str | None, data: str | None) -> None:
    """Find the first line that was changed, taken out or put in.

    FILE is a file of the log, or a folder with all of them. Prints the last line's number and hash:
    kept elsewhere, it shows later that nothing was made anew."""
    found = verify(((p.name, p.read_bytes()) for p in _files(file, data)), _link(expect))
    if isinstance(found, Fault):
        raise ServiceError(f"the audit log does not fit together at {found}")
    click.echo(f"whole up to line {found}")


def _link(text: str | None) -> Link | None:
    if text is None:
        return None
    number, _, own = text.partition(":")
    if not number.isdecimal() or len(own) != 64:
        raise click.UsageError(f"--expect '{text}' is not NUMBER:HASH")
    return Link(int(number), own)


@audit.command("show")
@click.option("--by", help="Only of this principal.")
@click.option("--object", "subject", help="Only of this job, topic or file.")
@click.option("--last", default=100, show_default=True, type=click.IntRange(1), help="So many.")
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="'json' is a line an event, as in the files.",
)
@_DATA
def show(by: str | None, subject: str | None, last: int, output: str, data: str | None) -> None:
    """Show the last events, oldest first."""
    events = _events(data)
    wanted = (e for e in events if by in (None, e["by"]) and subject in (None, e.get("object")))
    found = list(wanted)[-last:]
    if output == "json":
        for event in found:
            click.echo(json.dumps(event, ensure_ascii=False))
        return
    rows = [
        (e["time"], e["by"], e["peer"], e["what"], _object(e), e["outcome"], _detail(e))
        for e in found
    ]
    draw_table(("time", "by", "from", "what", "object", "outcome", "detail"), rows)


def _object(event: Json) -> str:
    version = event.get("version")
    return f"{event.get('object', '')}" + (f" version {version}" if version else "")


def _detail(event: Json) -> str:
    counts = [f"{event[k]} {k}" for k in ("times", "bytes") if k in event]
    counts = ["once" if text == "1 times" else text for text in counts]
    text = " ".join(str(event.get("detail", "")).split())
    return ", ".join([*counts, *([text] if text else [])])


def _events(data: str | None) -> Iterator[Json]:
    """Yields the events of all files; a line that is none is left out: 'verify' tells it."""
    for path in _files(None, data):
        for line in path.read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if (
                isinstance(event, dict)
                and {"time", "by", "peer", "what", "outcome"} <= event.keys()
            ):
                yield event


def _files(file: Path | None, data: str | None) -> list[Path]:
    if file is not None and file.is_file():
        return [file]
    folder = file or data_folder(data) / FOLDER
    found = files_in(folder)
    if not found:
        raise ServiceError(
            f"there is no audit log in '{folder}'",
            hint="--data names the data folder of a server with --access",
        )
    return found
