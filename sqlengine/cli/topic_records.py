"""`sql topic read`, `sql topic write` and `sql tail`: the records of a topic."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from itertools import takewhile

import click

from parser.errors import JobError, SqlError
from sqlengine.cli.options import show
from sqlengine.cli.portions import finishing, portions
from sqlengine.cli.topic_access import Topics, open_topics, topic_options
from sqlengine.client import Json
from sqlengine.system.sizes import moment_ms
from sqlengine.system.terminal import obeying
from sqlengine.system.words import count

OFFSETS = "A number, 'earliest', 'latest', or a time such as 2026-01-31T12:00 (UTC)."


@click.command("read", short_help="Print the records of a topic.")
@click.argument("name")
@click.option(
    "--shard", type=click.IntRange(0), help="One shard (default: all, one after the other)."
)
@click.option("--offset", default="earliest", show_default=True, help=OFFSETS)
@click.option("--until", help="Only records before this offset, or this time.")
@click.option("--key", help="Only records with this key.")
@click.option("--limit", type=click.IntRange(0), help="At most so many records.")
@topic_options
def read(
    name: str,
    shard: int | None,
    offset: str,
    until: str | None,
    key: str | None,
    limit: int | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Print the records of a topic: their values, or with --output json all that is known of
    each, which cases of rules take as they are."""
    left = limit if limit is not None else sys.maxsize
    is_within = _before(until)
    with open_topics(data, server, token_file) as topics:
        shards = range(int(str(topics.about(name)["shards"]))) if shard is None else [shard]
        for number in shards:
            found = _records(topics, name, number, offset, left, key, follow=False)
            for record in takewhile(is_within, found):
                _print(record, number, output)
                left -= 1


@click.command(short_help="Follow a topic: print its records as they come.")
@click.argument("name")
@click.option(
    "--shard", default=0, show_default=True, type=click.IntRange(0), help="The shard to follow."
)
@click.option("--from", "offset", default="latest", show_default=True, help=OFFSETS)
@click.option("--key", help="Only records with this key.")
@click.option("--limit", type=click.IntRange(1), help="End after so many records.")
@topic_options
def tail(
    name: str,
    shard: int,
    offset: str,
    key: str | None,
    limit: int | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Follow a topic: print its records as they come, until Ctrl-C. With --data it ends with the
    last record, since nobody else can write there meanwhile."""
    try:
        with open_topics(data, server, token_file) as topics:
            for record in _records(
                topics, name, shard, offset, limit or sys.maxsize, key, follow=data is None
            ):
                _print(record, shard, output)
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def _records(
    topics: Topics, name: str, shard: int, offset: str, limit: int, key: str | None, follow: bool
) -> Iterator[Json]:
    while limit > 0:
        body = topics.read(
            name, shard, offset, 10_000 if key else min(limit, 1000), 1 if follow else 0, key
        )
        records = body["records"]
        assert isinstance(records, list)
        yield from records[:limit]
        limit -= len(records)
        if offset == str(body["next_offset"]) and not follow:
            return
        offset = str(body["next_offset"])


def _before(until: str | None) -> Callable[[Json], bool]:
    """Returns whether a record is before an offset or a time. JobError for another text."""
    if until is None:
        return lambda record: True
    if until.isascii() and until.isdigit():
        return lambda record: int(str(record["offset"])) < int(until)
    try:
        end_ms = moment_ms(until)
    except ValueError:
        hint = "write an offset, or a time like 2026-01-31T12:00 (UTC)"
        raise JobError(f"'--until {until[:60]}' is no end", hint=hint) from None
    return lambda record: int(str(record["timestamp"])) < end_ms


def _print(record: Json, shard: int, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"shard": shard, **record}, ensure_ascii=False))
    else:
        value = record.get("value", record.get("value_base64"))
        # With `color` a pipe gets what it holds: else click would drop escape sequences there.
        click.echo("" if value is None else str(value), color=True)


@click.command("write")
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--shard", default=0, show_default=True, type=click.IntRange(0), help="The shard to write to."
)
@click.option("--key", help="The key of all records.")
@topic_options
def write(
    name: str,
    file: io.BufferedReader,
    shard: int,
    key: str | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Append the lines of a file (or of standard input) as records.

    A line is written at the latest 0.1 s after it came, so that a slow producer can be piped into
    it; Ctrl-C ends the input. Lines that are longer than 'record-size' are left out and named; then
    the exit status is 1."""
    written = line = left_out = 0
    with open_topics(data, server, token_file) as topics:
        topics.about(name)
        for lines in portions(file):
            with finishing() as interrupted:
                try:
                    body = topics.append(name, lines, shard, key)
                except SqlError:
                    if written:
                        click.echo(f"{name}: {count(written, 'record')} before this:", err=True)
                    raise
                written += int(str(body["next_offset"])) - int(str(body["first_offset"]))
            left_out += _say_refused(body, line)
            line += lines.count(b"\n")
            if interrupted():
                break
            if sys.stderr.isatty():
                click.echo(f"\r{written:,} records", obeying(sys.stderr), nl=False)
    show(
        {"topic": name, "records": written},
        output,
        lambda b: click.echo(f"{name}: {count(written, 'record')}"),
    )
    if left_out:
        raise SystemExit(1)


def _say_refused(body: Json, before: int) -> int:
    """Names the lines of a portion that were not taken, behind so many others; returns their
    number."""
    refused = body.get("refused")
    refused = refused if isinstance(refused, list) else []
    for one in refused:
        click.echo(f"line {before + one['line']} is left out: {one['error']}", err=True)
    return len(refused)
