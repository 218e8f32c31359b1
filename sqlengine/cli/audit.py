"""`sql audit`: the audit log of a server, whether it runs or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import time_ns

import click

from parser.errors import ServiceError
from sqlengine.access.audit.chain import Fault, Link, verify
from sqlengine.access.audit.live import jobs_at
from sqlengine.access.audit.log import FOLDER, files_in, time_text
from sqlengine.access.audit.reading import Wanted, events_in
from sqlengine.cli.tables import draw_table
from sqlengine.cli.views.live import show_live
from sqlengine.client import Json
from sqlengine.config import data_folder
from sqlengine.system.sizes import moment_ms

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


def _events(data: str | None, wanted: Wanted | None = None) -> Iterator[Json]:
    return events_in(_files(None, data), wanted)


@audit.command("export")
@click.option("--job", help="Only of this job, topic or file.")
@click.option("--since", metavar="TIME", help="Only from then on, such as 2026-01-31T12:00 (UTC).")
@click.option("--until", metavar="TIME", help="Only till then.")
@click.option("--out", type=click.Path(path_type=Path), help="A file (default: standard output).")
@_DATA
def export(
    job: str | None, since: str | None, until: str | None, out: Path | None, data: str | None
) -> None:
    """Write the lines as JSON, once the whole log was verified.

    The last line's number and hash are told: kept elsewhere, they show later that nothing was made
    anew."""
    found = verify((p.name, p.read_bytes()) for p in _files(None, data))
    if isinstance(found, Fault):
        raise ServiceError(f"the audit log does not fit together at {found}")
    wanted = Wanted(job, _time("--since", since), _time("--until", until))
    with click.open_file("-" if out is None else str(out), "w", encoding="utf-8") as file:
        for event in _events(data, wanted):
            file.write(f"{json.dumps(event, ensure_ascii=False)}\n")
    click.echo(f"whole up to line {found}", err=True)


@audit.command("live")
@click.option("--at", metavar="TIME", required=True, help="Such as 2026-01-31T12:00 (UTC).")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_DATA
def live(at: str, output: str, data: str | None) -> None:
    """Show the jobs that ran at a time; 'sql jobs --at' shows their texts, too."""
    _files(None, data)
    time = _ms("--at", at)
    now = time_ns() // 1_000_000
    if time > now:
        raise click.BadParameter(f"it is {time_text(now)} now", param_hint="--at")
    found = jobs_at(data_folder(data) / FOLDER, time, runs=False)
    jobs = [{"name": n, **asdict(job)} for n, job in found.live().items()]
    body = {"at": time_text(time), "known": found.known, "server_ran": found.up}
    proof = {"proven": found.proven, "last_line": found.last}
    show_live({**body, **proof, "jobs": jobs}, None, output)


def _time(option: str, text: str | None) -> str | None:
    return None if text is None else time_text(_ms(option, text))


def _ms(option: str, text: str) -> int:
    try:
        return moment_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _files(file: Path | None, data: str | None) -> list[Path]:
    if file is not None and file.is_file():
        return [file]
    folder = file or data_folder(data) / FOLDER
    found = files_in(folder)
    if not found:
        raise ServiceError(
            f"there is no audit log in '{folder}'",
            hint="--data names the data folder of a server",
        )
    return found
