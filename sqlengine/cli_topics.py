"""`sql topic` and `sql tail`: the broker of a running server, or of a data folder that no server uses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import click

from sqlengine import topic_access
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.broker.errors import DataFolderLocked
from sqlengine.cli_jobs import server_options, show
from sqlengine.cli_tables import draw_table
from sqlengine.client import Client, Json, default_client, quote

F = TypeVar("F", bound=Callable[..., object])
TOPICS = "/api/v1/topics"
LINES_PER_REQUEST = 5_000
BYTES_PER_REQUEST = 16 << 20


class Topics(Protocol):
    """The topics of a server, or of a folder."""

    def list(self) -> Json: ...

    def about(self, name: str) -> Json: ...

    def create(self, asked: Json) -> Json: ...

    def delete(self, name: str) -> Json: ...

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json: ...

    def read(self, name: str, shard: int, offset: str, limit: int, wait: int) -> Json: ...


class RemoteTopics:
    """Over HTTP."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Json:
        return self._client.get(TOPICS)

    def about(self, name: str) -> Json:
        return self._client.get(f"{TOPICS}/{quote(name)}")

    def create(self, asked: Json) -> Json:
        return self._client.post(TOPICS, asked)

    def delete(self, name: str) -> Json:
        return self._client.delete(f"{TOPICS}/{quote(name)}")

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json:
        return self._client.post(f"{TOPICS}/{quote(name)}/records", lines, shard=shard, key=key)

    def read(self, name: str, shard: int, offset: str, limit: int, wait: int) -> Json:
        asked: Json = {"shard": shard, "offset": offset, "limit": limit, "wait": wait}
        return self._client.get(f"{TOPICS}/{quote(name)}/records", **asked)


class FolderTopics:
    """In a data folder; nobody else can use it meanwhile."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def list(self) -> Json:
        return topic_access.list_topics(self._broker)

    def about(self, name: str) -> Json:
        return topic_access.topic_json(self._broker.topic(name))

    def create(self, asked: Json) -> Json:
        return topic_access.create_topic(self._broker, asked)

    def delete(self, name: str) -> Json:
        return topic_access.delete_topic(self._broker, name)

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json:
        return topic_access.append_lines(self._broker, name, lines, shard=shard, key=key, now_ms=system_clock())

    def read(self, name: str, shard: int, offset: str, limit: int, wait: int) -> Json:
        return topic_access.read_records(self._broker, name, shard=shard, offset=offset, limit=limit)


@contextmanager
def open_topics(
    data: str | None, server: str | None, token_file: str | None, *, make: bool = False
) -> Iterator[Topics]:
    """The folder's topics when --data names one, else the server's. `make`: the folder may be a new one."""
    if data is None:
        yield RemoteTopics(default_client(server, token_file))
        return
    if server is not None:
        raise click.UsageError("--data opens a folder, --server a server: give one of them")
    if not make and not (Path(data) / "topics").is_dir():
        raise topic_access.missing_folder(data)
    try:
        broker = EmbeddedBroker(data)
    except DataFolderLocked as error:
        hint = "leave out --data: topics are reached through the server while it runs"
        raise DataFolderLocked(error.message, detail=error.detail, hint=hint) from None
    try:
        yield FolderTopics(broker)
    finally:
        broker.close()


def topic_options(command: F) -> F:
    """--data beside the options of all commands that talk to a server."""
    text = "Data folder to open while no server runs on it (default: ask the server)."
    return click.option("--data", help=text)(server_options(command))


@click.group()
def topic() -> None:
    """Create, list, read, write and delete topics."""


@topic.command("create")
@click.argument("name")
@click.option("--shards", default=1, show_default=True, type=click.IntRange(1), help="Read and written in parallel.")
@click.option("--compacted", is_flag=True, help="Keep the last record of each key.")
@click.option("--if-not-exists", is_flag=True, help="Without it, a topic that is there is an error.")
@topic_options
def create(
    name: str,
    shards: int,
    compacted: bool,
    if_not_exists: bool,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Create a topic."""
    asked: Json = {"name": name, "shards": shards, "compacted": compacted, "if_not_exists": if_not_exists}
    with open_topics(data, server, token_file, make=True) as topics:
        show(topics.create(asked), output, lambda b: click.echo(f"{b['name']}: {_count(b['shards'], 'shard')}"))


def _count(number: object, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@topic.command("list")
@topic_options
def list_topics(data: str | None, server: str | None, token_file: str | None, output: str) -> None:
    """List all topics."""
    with open_topics(data, server, token_file) as topics:
        show(topics.list(), output, _draw)


def _draw(body: Json) -> None:
    topics = body["topics"]
    assert isinstance(topics, list)
    rows = []
    for t in topics:
        kind = ["system"] * t["name"].startswith("_") + ["compacted"] * t["compacted"]
        rows.append((t["name"], t["shards"], f"{t['records']:,}", f"{t['bytes']:,}", ", ".join(kind)))
    draw_table(("topic", "shards", "records", "bytes", "kind"), rows)


@topic.command("delete")
@click.argument("name")
@topic_options
def delete(name: str, data: str | None, server: str | None, token_file: str | None, output: str) -> None:
    """Delete a topic and all its records."""
    with open_topics(data, server, token_file) as topics:
        show(topics.delete(name), output, lambda b: click.echo(f"{b['deleted']}: deleted"))


@topic.command("read", short_help="Print the records of a topic.")
@click.argument("name")
@click.option("--shard", type=click.IntRange(0), help="One shard (default: all, one after the other).")
@click.option("--offset", default="earliest", show_default=True, help="A number, 'earliest' or 'latest'.")
@click.option("--limit", type=click.IntRange(0), help="At most so many records.")
@topic_options
def read(
    name: str,
    shard: int | None,
    offset: str,
    limit: int | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Print the records of a topic: their values, or with --output json all that is known of each."""
    left = limit if limit is not None else sys.maxsize
    with open_topics(data, server, token_file) as topics:
        shards = range(int(str(topics.about(name)["shards"]))) if shard is None else [shard]
        for number in shards:
            for record in _records(topics, name, number, offset, left, follow=False):
                _print(record, number, output)
                left -= 1


@click.command()
@click.argument("name")
@click.option("--shard", default=0, show_default=True, type=click.IntRange(0), help="The shard to follow.")
@click.option("--from", "offset", default="latest", show_default=True, help="A number, 'earliest' or 'latest'.")
@click.option("--limit", type=click.IntRange(1), help="End after so many records.")
@topic_options
def tail(
    name: str,
    shard: int,
    offset: str,
    limit: int | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Follow a topic: print its records as they come, until Ctrl-C. With --data it ends with the last record, since
    nobody else can write there meanwhile."""
    try:
        with open_topics(data, server, token_file) as topics:
            for record in _records(topics, name, shard, offset, limit or sys.maxsize, follow=data is None):
                _print(record, shard, output)
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def _records(topics: Topics, name: str, shard: int, offset: str, limit: int, follow: bool) -> Iterator[Json]:
    while limit > 0:
        body = topics.read(name, shard, offset, min(limit, 1000), 1 if follow else 0)
        records = body["records"]
        assert isinstance(records, list)
        yield from records
        limit -= len(records)
        if offset == str(body["next_offset"]) and not follow:
            return
        offset = str(body["next_offset"])


def _print(record: Json, shard: int, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"shard": shard, **record}, ensure_ascii=False))
    else:
        value = record.get("value", record.get("value_base64"))
        click.echo("" if value is None else str(value))


@topic.command("write")
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--shard", default=0, show_default=True, type=click.IntRange(0), help="The shard to write to.")
@click.option("--key", help="The key of all records.")
@topic_options
def write(
    name: str,
    file: BinaryIO,
    shard: int,
    key: str | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Append the lines of a file (or of standard input) as records."""
    count = 0
    with open_topics(data, server, token_file) as topics:
        topics.about(name)
        for lines in _portions(file):
            body = topics.append(name, lines, shard, key)
            count += int(str(body["next_offset"])) - int(str(body["first_offset"]))
            if sys.stderr.isatty():
                click.echo(f"\r{count:,} records", err=True, nl=False)
    show({"topic": name, "records": count}, output, lambda b: click.echo(f"{name}: {_count(count, 'record')}"))


def _portions(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, so many that a request is neither small nor large."""
    lines: list[bytes] = []
    size = 0
    for line in file:
        if lines and (len(lines) == LINES_PER_REQUEST or size + len(line) > BYTES_PER_REQUEST):
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
    if lines:
        yield b"".join(lines)
