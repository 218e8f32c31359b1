"""The reference page of connectors and formats, generated from what they declare.

    python -m sqlengine.connectors.reference docs

writes `docs/connectors.md` anew. `docs/connectors/NAME.md` is a connector's own page, where it has
one; `docs/connectors/measured.json` has what `python -m benchmarks connectors` measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from planner.capabilities import (
    OF_FORMAT,
    Capabilities,
    FormatUse,
    Lookup,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.logical.change_kinds import ChangelogMode
from sqlengine.connectors.base import Connector
from sqlengine.connectors.registry import connector_names, get_connector
from sqlengine.formats.base import Format, Option
from sqlengine.formats.registry import format_names, get_format

_HEAD = """# Connectors and formats

Written by `python -m sqlengine.connectors.reference docs` from what connectors and formats declare.
Rates are rows per CPU second of the whole process, from a record to a row and back;
[benchmarks](benchmarks.md) have those of the bare client beside them. Changelog modes are Flink's:
I, UB, UA and D are rows +I, -U, +U and -D. Tables say what a connector can do at most; `EXPLAIN`
and `sql validate` say what a statement's tables do with their options."""
_NOT = "–"
_Rates: TypeAlias = dict[str, dict[str, str]]
# Pages that are not of one connector alone.
_SHARED_PAGES = {
    "filesystem": "sql/files.md",
    "jdbc": "sql/databases.md",
    "topic": "broker.md",
    "upsert-kafka": "connectors/kafka.md",
}
_LOOKUPS = {
    Lookup.SCANNED: "rows read so far",
    Lookup.RELOADED: "rows read so far, or the whole table in a file",
    Lookup.ASKED: "rows read so far, the whole table in a file, or the rows of keys",
}
_SOURCES = """## Sources

A *replayable* source gives records that were read once again with equal bytes. In a *seekable* one
a new job may begin elsewhere than at the first record. Records of one that *expires* may be removed
while a savepoint still refers to them. One with *filters* may leave out rows that no job wants
without reading them. *Lookup* says how a lookup join sees the table. Subtasks share out the shards
of a *parallel* one (`sql serve --instances`)."""
_SINKS = """## Sinks

*Exactly-once* rests on what the last column says; with `sql serve --delivery at-least-once` every
sink is at-least-once. A sink with *isolated jobs* may refuse the rows of one job without stopping
others. Several subtasks may write to a *parallel* one."""
_FORMATS = """## Formats

A format is one of records, or one of whole files (Flink's bulk formats). [Types and
differences](formats.md) are on a page of their own."""
_OWN = """## A connector or format of your own

Another distribution adds connectors, formats and functions by entry points; nothing changes in
sqlengine. `tests/packaging/plugin/` is a complete example.

```toml
[project.entry-points."sqlengine.connectors"]
lines = "sqlengine_example:LinesConnector"

[project.entry-points."sqlengine.formats"]
pipes = "sqlengine_example:PipesFormat"

[project.entry-points."sqlengine.functions"]
shout = "sqlengine_example_functions:shout"
```

A connector is a subclass of `sqlengine.Connector`, which opens a `sqlengine.Source` or a
`sqlengine.Sink`; a format is one of `sqlengine.Format`. Each is made without arguments when a table
first names it. A name of sqlengine's own cannot be taken."""


def page(folder: Path) -> str:
    """Returns the reference page in Markdown, for the folder of documents `folder`."""
    connectors = [c for name in connector_names() if (c := get_connector(name)) is not None]
    formats = [get_format(name) for name in format_names()]
    parts = [
        _HEAD,
        _table(_overview(c, folder) for c in connectors),
        _SOURCES,
        _table(_source_row(c.name, c.capabilities, s) for c, s in _sources(connectors)),
        _SINKS,
        _table(_sink_row(c.name, c.capabilities, s) for c, s in _sinks(connectors)),
        _FORMATS,
        _table(_format_row(f) for f in formats),
        *(_section(f"Connector `{c.name}`", c.options, c.metadata) for c in connectors),
        *(_section(f"Format `{f.name}`", f.options, f.metadata, f.name + ".") for f in formats),
        _OWN,
    ]
    return "\n\n".join(parts) + "\n"


def _overview(connector: Connector, folder: Path) -> Mapping[str, str]:
    """Returns what people choose a connector by."""
    name, can = connector.name, connector.capabilities
    own = _SHARED_PAGES.get(name, f"connectors/{name}.md")
    rates = _rates(folder).get(name, {})
    source, sink = can.source, can.sink
    return {
        "connector": f"[`{name}`]({own})" if (folder / own).exists() else f"`{name}`",
        "reads": _NOT if source is None else source.boundedness.value,
        "look-up": _NOT if source is None else _LOOKUPS[source.lookup],
        "writes": _NOT if sink is None else _changes(sink),
        "delivery": _NOT if sink is None else sink.guarantee.value,
        "on Spark": _on_spark(connector),
        "tested with": connector.tested_with,
        "rows/CPU s in": rates.get("in", ""),
        "rows/CPU s out": rates.get("out", ""),
    }


def _on_spark(connector: Connector) -> str:
    if connector.on_spark != Connector.on_spark:
        return connector.on_spark
    can = connector.capabilities
    sides = {"reads": can.source, "writes": can.sink}
    return f"the driver {' and '.join(side for side, there in sides.items() if there)}"


def _rates(folder: Path) -> _Rates:
    """Returns the measured rates in and out by connector."""
    path = folder / "connectors" / "measured.json"
    return msgspec.json.decode(path.read_bytes(), type=_Rates) if path.exists() else {}


def _changes(sink: SinkCapabilities) -> str:
    mode = sink.changelog
    if mode is OF_FORMAT:
        return "as the format"
    if mode.is_insert_only:
        return "rows"
    return "rows, changes by key" if mode.is_upsert else "rows, changes"


def _sources(connectors: Iterable[Connector]) -> Iterator[tuple[Connector, SourceCapabilities]]:
    for connector in connectors:
        if connector.capabilities.source is not None:
            yield connector, connector.capabilities.source


def _sinks(connectors: Iterable[Connector]) -> Iterator[tuple[Connector, SinkCapabilities]]:
    for connector in connectors:
        if connector.capabilities.sink is not None:
            yield connector, connector.capabilities.sink


def _source_row(name: str, all_: Capabilities, source: SourceCapabilities) -> Mapping[str, str]:
    return {
        "connector": f"`{name}`",
        "changelog mode": _mode(source.changelog),
        "format": all_.format.value,
        "bounded": source.boundedness.value,
        "replayable": _yes(source.replayable),
        "seekable": _yes(source.seekable),
        "expires": _yes(source.expires),
        "partitions": "yes, pruned" if source.partition_push_down else _partitions(all_),
        "filters": "yes, asked for" if source.queried else _yes(source.filter_push_down),
        "lookup": source.lookup.value,
        "parallel": _yes(source.parallel),
    }


def _sink_row(name: str, all_: Capabilities, sink: SinkCapabilities) -> Mapping[str, str]:
    return {
        "connector": f"`{name}`",
        "changelog mode": _mode(sink.changelog),
        "format": all_.format.value,
        "guarantee": sink.guarantee.value,
        "partitions": _partitions(all_),
        "INSERT OVERWRITE": sink.overwrite.value,
        "isolated jobs": _yes(sink.isolated_jobs),
        "parallel": _yes(sink.parallel),
        "rests on": sink.condition,
    }


def _format_row(format_: Format) -> Mapping[str, str]:
    return {
        "format": f"`{format_.name}`",
        "changelog mode": _mode(format_.capabilities.changelog),
        "of": _of(format_),
        "connectors": ", ".join(f"`{name}`" for name in _users(format_)),
    }


def _of(format_: Format) -> str:
    can = format_.capabilities
    return ("records, files" if can.has_records else "files") if can.bulk else "records"


def _users(format_: Format) -> Iterator[str]:
    """Yields the connectors that use a format."""
    for name in connector_names():
        connector = get_connector(name)
        assert connector is not None
        use, can = connector.capabilities.format, format_.capabilities
        in_files = can.bulk or can.line_separated
        if in_files if use is FormatUse.RECORDS_AND_FILES else can.has_records:
            yield name


def _mode(mode: ChangelogMode) -> str:
    if mode is OF_FORMAT:
        return "of the format"
    return "as the query" if mode.as_requested else str(mode).strip("[]").replace(",", ", ")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _partitions(capabilities: Capabilities) -> str:
    return _yes(capabilities.partitioning or capabilities.keeps_rows)


def _section(
    title: str, options: Mapping[str, Option], metadata: Mapping[str, object], prefix: str = ""
) -> str:
    """Returns the section of one connector or format: its options and metadata columns."""
    lines = [f"## {title}"]
    if options:
        lines += ["", _table(_option_row(prefix + name, o) for name, o in options.items())]
    if metadata:
        columns = ", ".join(f"`{key}` {kind}" for key, kind in metadata.items())
        lines += ["", f"Metadata: {columns}."]
    return "\n".join(lines if len(lines) > 1 else [*lines, "", "It has no options."])


def _option_row(name: str, option: Option) -> Mapping[str, str]:
    default = "required" if option.required else f"`{option.default}`" if option.default else ""
    return {"option": f"`{name}`", "default": default, "meaning": option.doc}


def _table(rows: Iterable[Mapping[str, str]]) -> str:
    """Formats rows by column as a table in Markdown."""
    all_rows = list(rows)
    head = list(all_rows[0])
    return "\n".join(
        [_line(head), _line(["---"] * len(head)), *(_line(list(r.values())) for r in all_rows)]
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    documents = Path(sys.argv[1])
    (documents / "connectors.md").write_text(page(documents), encoding="utf-8")
