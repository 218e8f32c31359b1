"""`sql topic` and `sql tail`: the broker of a running server, or of a data folder that no server uses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

import click
from rich.console import Console
from rich.table import Table

from sqlengine.cli_jobs import server_options, show
from sqlengine.client import Client, Json, default_client, quote

TOPICS = "/api/v1/topics"
LINES_PER_REQUEST = 5_000


@click.group()
def topic() -> None:
    """Create, list, read, write and delete topics."""


@topic.command("create")
@click.argument("name")
@click.option("--shards", default=1, show_default=True, type=click.IntRange(1))
@click.option("--compacted", is_flag=True, help="Keep the last record of each key.")
@click.option("--if-not-exists", is_flag=True)
@server_options
def create(
    name: str,
    shards: int,
    compacted: bool,
    if_not_exists: bool,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Create a topic."""
    asked: Json = {"name": name, "shards": shards, "compacted": compacted, "if_not_exists": if_not_exists}
    body = default_client(server, token_file).post(TOPICS, asked)
    show(body, output, lambda b: click.echo(f"{b['name']}: {b['shards']} shards"))


@topic.command("list")
@server_options
def list_topics(server: str | None, token_file: str | None, output: str) -> None:
    """List all topics."""
    show(default_client(server, token_file).get(TOPICS), output, _draw)


def _draw(body: Json) -> None:
    table = Table("topic", "shards", "records", "bytes", "kind")
    topics = body["topics"]
    assert isinstance(topics, list)
    for t in topics:
        kind = "compacted" if t["compacted"] else ""
        table.add_row(t["name"], str(t["shards"]), f"{t['records']:,}", f"{t['bytes']:,}", kind)
    Console().print(table)


@topic.command("delete")
@click.argument("name")
@server_options
def delete(name: str, server: str | None, token_file: str | None, output: str) -> None:
    """Delete a topic and all its records."""
    body = default_client(server, token_file).delete(f"{TOPICS}/{quote(name)}")
    show(body, output, lambda b: click.echo(f"{b['deleted']}: deleted"))


@topic.command("read")
@click.argument("name")
@click.option("--shard", type=click.IntRange(0), help="One shard (default: all, one after the other).")
@click.option("--offset", default="earliest", show_default=True, help="A number, 'earliest' or 'latest'.")
@click.option("--limit", type=click.IntRange(0), help="At most so many records.")
@server_options
def read(
    name: str,
    shard: int | None,
    offset: str,
    limit: int | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Print the records of a topic: their values, or with --output json all that is known of each."""
    client = default_client(server, token_file)
    shards = range(int(str(client.get(f"{TOPICS}/{quote(name)}")["shards"]))) if shard is None else [shard]
    left = limit if limit is not None else sys.maxsize
    for number in shards:
        for record in _records(client, name, number, offset, left, follow=False):
            _print(record, number, output)
            left -= 1


@click.command()
@click.argument("name")
@click.option("--shard", default=0, show_default=True, type=click.IntRange(0))
@click.option("--from", "offset", default="latest", show_default=True, help="A number, 'earliest' or 'latest'.")
@click.option("--limit", type=click.IntRange(1), help="End after so many records.")
@server_options
def tail(
    name: str, shard: int, offset: str, limit: int | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Follow a topic: print its records as they come, until Ctrl-C."""
    client = default_client(server, token_file)
    try:
        for record in _records(client, name, shard, offset, limit or sys.maxsize, follow=True):
            _print(record, shard, output)
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def _records(client: Client, name: str, shard: int, offset: str, limit: int, follow: bool) -> Iterator[Json]:
    position: object = offset
    while limit > 0:
        asked = {"shard": shard, "offset": position, "limit": min(limit, 1000), "wait": 1 if follow else 0}
        body = client.get(f"{TOPICS}/{quote(name)}/records", **asked)
        records = body["records"]
        assert isinstance(records, list)
        yield from records
        limit -= len(records)
        if not records and not follow:
            return
        position = body["next_offset"]


def _print(record: Json, shard: int, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"shard": shard, **record}, ensure_ascii=False))
    else:
        value = record.get("value", record.get("value_base64"))
        click.echo("" if value is None else str(value))


@topic.command("write")
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--shard", default=0, show_default=True, type=click.IntRange(0))
@click.option("--key", help="The key of all records.")
@server_options
def write(
    name: str,
    file: BinaryIO,
    shard: int,
    key: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Append the lines of a file (or of standard input) as records."""
    client = default_client(server, token_file)
    count, lines = 0, []
    for line in file:
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        if len(lines) == LINES_PER_REQUEST:
            count += _append(client, name, lines, shard, key)
            lines = []
            if sys.stderr.isatty():
                click.echo(f"\r{count:,} records", err=True, nl=False)
    if lines:
        count += _append(client, name, lines, shard, key)
    show({"topic": name, "records": count}, output, lambda b: click.echo(f"{name}: {count:,} records"))


def _append(client: Client, name: str, lines: list[bytes], shard: int, key: str | None) -> int:
    body = client.post(f"{TOPICS}/{quote(name)}/records", b"".join(lines), shard=shard, key=key)
    return int(str(body["next_offset"])) - int(str(body["first_offset"]))
