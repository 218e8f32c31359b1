"""`sql topic`: topics of a running server, or of a data folder that no server uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sqlengine.cli.groups import groups, progress_table
from sqlengine.cli.messages import output_option
from sqlengine.cli.options import show
from sqlengine.cli.tables import draw_table
from sqlengine.cli.topic_access import open_topics, topic_options
from sqlengine.cli.topic_records import read, write
from sqlengine.cli.values import DURATION, SIZE, UNSET
from sqlengine.cli.waiting import at_work
from sqlengine.client import Json
from sqlengine.system.words import count

if TYPE_CHECKING:
    from sqlengine.broker.repair import Repair

F = TypeVar("F", bound=Callable[..., object])
_LIMITS = {
    "retention_ms": DURATION,
    "retention_bytes": SIZE,
    "delete_retention_ms": DURATION,
    "max_bytes": SIZE,
}


@click.group(short_help="Create, list, read, write and delete topics.")
def topic() -> None:
    """Create, list, describe, change, read, write, compact, move and delete topics, and the groups
    that read them."""


def limits(command: F) -> F:
    """The options of a topic that can be changed."""
    kinds = click.Choice(["none", "zstd", "lz4"])
    for option, text, kind in (
        ("--compression", "How batches are packed where whoever appends says nothing else.", kinds),
        ("--max-bytes", "Take no more beyond this size.", SIZE),
        (
            "--delete-retention",
            "How long a compacted topic keeps what says that a key is gone (default: a day).",
            DURATION,
        ),
        ("--retention-bytes", "Drop the oldest records of a shard beyond this size.", SIZE),
        ("--retention", "Drop records that are older, such as 7d or 12h.", DURATION),
    ):
        default = None if kind is kinds else UNSET
        command = click.option(option, type=kind, default=default, help=text)(command)
    return command


def _asked(options: dict[str, object]) -> Json:
    names = {"retention": "retention_ms", "delete_retention": "delete_retention_ms"}
    return {
        names.get(name, name): value
        for name, value in options.items()
        if value is not UNSET and (name, value) != ("compression", None)
    }


@topic.command("create")
@click.argument("name")
@click.option(
    "--shards",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Read and written in parallel.",
)
@click.option("--compacted", is_flag=True, help="Keep the last record of each key.")
@click.option(
    "--if-not-exists", is_flag=True, help="Without it, a topic that is there is an error."
)
@limits
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
    **options: object,
) -> None:
    """Create a topic."""
    asked: Json = {
        "name": name,
        "shards": shards,
        "compacted": compacted,
        "if_not_exists": if_not_exists,
    }
    with open_topics(data, server, token_file, make=True) as topics:
        made = topics.create(asked | _asked(options))
        show(
            made,
            output,
            lambda b: click.echo(f"{b['name']}: {count(int(str(b['shards'])), 'shard')}"),
        )


@topic.command("alter")
@click.argument("name")
@limits
@topic_options
def alter(
    name: str,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
    **options: object,
) -> None:
    """Change options of a topic; 'none' removes a limit."""
    asked = _asked(options)
    if not asked:
        raise click.UsageError("name what is to change, such as --retention 7d")
    with open_topics(data, server, token_file) as topics:
        show(
            topics.alter(name, asked),
            output,
            lambda b: click.echo(f"{b['name']}: {_options(b) or 'no limits'}"),
        )


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
        kind = ["system"] * t["name"].startswith("_") + [_options(t)] * bool(_options(t))
        kind += [f"damaged: {t['damage']}"] if t.get("damage") else []
        rows.append(
            (t["name"], t["shards"], f"{t['records']:,}", f"{t['bytes']:,}", ", ".join(kind))
        )
    draw_table(("topic", "shards", "records", "bytes", "kind"), rows)


def _options(t: Json) -> str:
    """Returns the options of a topic, in words."""
    words = ["compacted"] * bool(t["compacted"])
    for name, kind in _LIMITS.items():
        value = t.get(name)
        if isinstance(value, int):
            words.append(f"{name.removesuffix('_ms').replace('_', ' ')} {kind.show(value)}")
    return ", ".join(
        [*words, *([str(t["compression"])] if t.get("compression", "none") != "none" else [])]
    )


@topic.command("describe", short_help="Show the shards, options and readers of a topic.")
@click.argument("name")
@topic_options
def describe(
    name: str, data: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Show a topic: its options, shards with sizes and folders, and the groups that read it with
    owners and lag."""
    with open_topics(data, server, token_file) as topics:
        show(topics.about(name), output, _draw_details)


def _draw_details(body: Json) -> None:
    places, readers = body["places"], body["groups"]
    assert isinstance(places, list)
    assert isinstance(readers, list)
    click.echo(
        f"{body['name']}:"
        f" {count(len(places), 'shard')}{', ' * bool(_options(body))}{_options(body)}\n"
    )
    rows = [
        (
            p["shard"],
            f"{p['begin']:,}",
            f"{p['end']:,}",
            f"{p['records']:,}",
            f"{p['bytes']:,}",
            _folders(p["folders"]),
        )
        for p in places
    ]
    draw_table(("shard", "begin", "end", "records", "bytes", "segments in"), rows)
    if readers:
        click.echo()
        draw_table(*progress_table([{"topic": body["name"]} | r for r in readers]))


def _folders(folders: dict[str, int]) -> str:
    return ", ".join(f"{folder} ({number})" for folder, number in folders.items())


@topic.command("delete")
@click.argument("name")
@topic_options
def delete(
    name: str, data: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Delete a topic and all its records."""
    with open_topics(data, server, token_file) as topics:
        show(topics.delete(name), output, lambda b: click.echo(f"{b['deleted']}: deleted"))


@topic.command("compact", short_help="Compact a topic now.")
@click.argument("name")
@topic_options
def compact(
    name: str, data: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Compact a topic now, without waiting for the server's turn."""
    with open_topics(data, server, token_file) as topics, at_work(f"compacting {name}"):
        done = topics.compact(name)
    show(
        done,
        output,
        lambda b: click.echo(f"{name}: {b['bytes_before']:,} bytes before, {b['bytes']:,} now"),
    )


@topic.command("repair", short_help="Give up what is damaged of a topic.")
@click.argument("name")
@click.option("--data", required=True, metavar="DIR", help="A data folder that no server uses.")
@output_option(["table", "json"], "For people or programs.")
def repair(name: str, data: str, output: str) -> None:
    """Give up what is damaged of a topic, and nothing else: the server has to be stopped.

    Offsets stay; there are no records at those that are lost. Damaged files are kept beside the
    others, with the ending '.damaged'."""
    from sqlengine.broker.repair import repair_topic

    done = repair_topic(Path(data), name)
    lost: list[Json] = [
        {"shard": shard, "first": one.first, "end": one.behind, "kept": str(one.kept)}
        for shard, found in done.lost.items()
        for one in found
    ]
    body: Json = {"topic": name, "options_lost": done.definition, "lost": lost}
    show(body, output, lambda _: _draw_repair(name, done))


def _draw_repair(name: str, done: Repair) -> None:
    if done.definition:
        click.echo(f"{name}: its options were lost; 'sql topic alter {name}' sets them again")
    for shard, found in done.lost.items():
        for one in found:
            many = one.behind - one.first
            what = f"{count(many, 'record')} from offset {one.first} on" if many else "no record"
            click.echo(f"{name}: shard {shard} lost {what}; the file before is {one.kept}")
    if not done.lost and not done.definition:
        click.echo(f"{name}: nothing is damaged")


@topic.command("move", short_help="Put a shard into another folder.")
@click.argument("name")
@click.option(
    "--shard", default=0, show_default=True, type=click.IntRange(0), help="The shard to move."
)
@click.option(
    "--to",
    "folder",
    required=True,
    help="A folder of those that the server was given (--volume), or below one.",
)
@click.option("--with-data", is_flag=True, help="Move the records that are there, too.")
@topic_options
def move(
    name: str,
    shard: int,
    folder: str,
    with_data: bool,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Put what comes into a shard from now on into another folder, on another disk for example.
    Offsets stay, and whoever reads or writes goes on meanwhile."""
    asked: Json = {"shard": shard, "folder": str(Path(folder).absolute()), "with_data": with_data}
    with (
        open_topics(data, server, token_file) as topics,
        at_work(f"moving shard {shard} of {name}"),
    ):
        done = topics.move(name, asked)
    folders = done["folders"]
    assert isinstance(folders, dict)
    show(
        done, output, lambda b: click.echo(f"{name} shard {shard}: segments in {_folders(folders)}")
    )


for command in (groups, read, write):
    topic.add_command(command)
