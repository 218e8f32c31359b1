"""`sql topic groups`: who reads topics, how far they are, and setting them back."""

from __future__ import annotations

from collections.abc import Sequence

import click

from sqlengine.cli.options import show
from sqlengine.cli.tables import draw_table
from sqlengine.cli.topic_access import open_topics, topic_options
from sqlengine.client import Json


@click.group()
def groups() -> None:
    """Groups of consumers: list, reset and delete them."""


@groups.command("list")
@topic_options
def list_groups(data: str | None, server: str | None, token_file: str | None, output: str) -> None:
    """List all groups: who owns which shard, how far each has been read, and how much is left."""
    with open_topics(data, server, token_file) as topics:
        show(topics.groups(), output, _draw)


def _draw(body: Json) -> None:
    entries = body["groups"]
    assert isinstance(entries, list)
    if not entries:
        click.echo("no groups", err=True)
        return
    draw_table(*progress_table([{"group": g["group"]} | t for g in entries for t in g["topics"]]))


def progress_table(readers: Sequence[Json]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Headers and rows: a row per group, topic and shard."""
    rows: list[tuple[object, ...]] = []
    for reader in readers:
        shards = reader["shards"]
        assert isinstance(shards, list)
        for s in shards:
            committed = "" if s["committed"] is None else f"{s['committed']:,}"
            row = (
                reader["topic"],
                s["shard"],
                s["owner"] or "",
                committed,
                f"{s['end']:,}",
                f"{s['lag']:,}",
            )
            rows.append((reader["group"], *row))
    return ("group", "topic", "shard", "owner", "committed", "end", "lag (records)"), rows


@groups.command("reset")
@click.argument("group")
@click.argument("topic")
@click.option(
    "--to",
    required=True,
    help="A number, 'earliest', 'latest', or a time such as 2026-01-31T12:00 (UTC).",
)
@click.option("--shard", type=click.IntRange(0), help="One shard (default: all).")
@topic_options
def reset(
    group: str,
    topic: str,
    to: str,
    shard: int | None,
    data: str | None,
    server: str | None,
    token_file: str | None,
    output: str,
) -> None:
    """Set where a group goes on reading a topic. Its members must have stopped."""
    asked: Json = {"topic": topic, "to": to} | ({} if shard is None else {"shard": shard})
    with open_topics(data, server, token_file) as topics:
        done = topics.reset(group, asked)
    offsets = done["offsets"]
    assert isinstance(offsets, dict)
    positions = ", ".join(f"shard {number} at {offset:,}" for number, offset in offsets.items())
    show(done, output, lambda _: click.echo(f"{group} goes on reading {topic}: {positions}"))


@groups.command("delete")
@click.argument("group")
@topic_options
def delete(
    group: str, data: str | None, server: str | None, token_file: str | None, output: str
) -> None:
    """Forget how far a group has read. Its members must have stopped."""
    with open_topics(data, server, token_file) as topics:
        show(topics.delete_group(group), output, lambda b: click.echo(f"{b['deleted']}: deleted"))
