"""Draws how far jobs are: rows behind, watermarks, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from sqlengine.cli.tables import draw_table, number
from sqlengine.client import Json
from sqlengine.system.words import count

COLUMNS = ("table", "behind", "watermark", "lag", "late rows", "idle shards")


def wait_in_list(job: Json) -> str:
    """Returns the first wait of a job that has read all there is: only later rows end it."""
    waits = _items(job, "waits")
    read = not any(table["behind"] for table in _items(job, "tables"))
    return str(waits[0]["text"]) if waits and read else ""


def draw_tables_of_jobs(jobs: Sequence[Json]) -> None:
    """Draws a line for each table that each job reads."""
    rows = [(job["name"], *_cells(table)) for job in jobs for table in _items(job, "tables")]
    if rows:
        draw_table(("job", *COLUMNS), rows)
    else:
        click.echo("no job that runs reads a table" if jobs else "no jobs", err=True)


def draw_progress(job: Json) -> None:
    """Draws the tables of one job, their shards where there are several, and what waits."""
    tables = _items(job, "tables")
    if tables:
        click.echo()
        draw_table(COLUMNS, [_cells(table) for table in tables])
    for table in tables:
        lost = table["lost_files"]
        if isinstance(lost, int) and lost:
            files = count(lost, "file")
            click.echo(f"\ntable {table['table']}: {files} ended unread, the log says where")
    shards = [row for table in tables for row in _shards(table)]
    if shards:
        click.echo()
        draw_table(("table", "shard", "read to", "end", "watermark", ""), shards)
    for lookup in _items(job, "lookups"):
        failed = (
            f"; it keeps them since it cannot be read: {lookup['error']}" if lookup["error"] else ""
        )
        click.echo(f"\nlook-up table {lookup['table']}: {lookup['rows']:,} rows{failed}")
    for wait in _items(job, "waits"):
        number = wait["number"]
        assert isinstance(number, int)
        click.echo(f"\n{wait['operation']}: {wait['text']} ({count(number, str(wait['unit']))})")
        click.echo(f"  {wait['hint']}")
    if tables:
        click.echo()


def counts_of(job: Json) -> str:
    """Returns the rows of a job in words."""
    rows, own = job["rows"], job["version_rows"]
    parts = [f"{rows:,}" if rows == own else f"{rows:,} ({own:,} by version {job['version']})"]
    late, held, letters = job["late_rows"], job["held_back"], job["dead_letters"]
    assert isinstance(late, int)
    assert isinstance(held, int)
    assert isinstance(letters, int)
    parts += [f"{late:,} late"] * bool(late)
    parts += [f"{held:,} held back"] * bool(held)
    parts += [f"{count(letters, 'dead letter')}"] * bool(letters)
    return ", ".join(parts)


def _cells(table: Json) -> tuple[str, ...]:
    idle = table["idle_shards"]
    assert isinstance(idle, list)
    watermark = "end of input" if table["ended"] else table["watermark"]
    return (
        str(table["table"]),
        _behind(table),
        _text(watermark),
        _lag(table["lag_ms"]),
        number(table["late_rows"]),
        ", ".join(map(str, idle)) or "-",
    )


def _behind(table: Json) -> str:
    behind = table["behind"]
    return "?" if behind is None else f"{behind:,} {table['unit']}"


def _shards(table: Json) -> Iterator[tuple[str, ...]]:
    shards = _items(table, "shards")
    if len(shards) < 2:
        return
    for shard in shards:
        yield (
            str(table["table"]),
            str(shard["shard"]),
            str(shard["offset"]),
            _text(shard["end"]),
            _text(shard["watermark"]),
            "idle" if shard["idle"] else "",
        )


def _lag(ms: object) -> str:
    """Returns a lag in its largest unit of which there are at least two."""
    if not isinstance(ms, int):
        return "-"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if abs(ms) >= 2 * size:
            return f"{ms / size:,.0f} {unit}"
    return f"{ms / 1000:.1f} s"


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _items(body: Json, key: str) -> list[Json]:
    items = body.get(key, [])
    assert isinstance(items, list)
    return items
