"""Tables of figures, on the terminal and in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from benchmarks.measure import machine

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

What `make bench` measured; each section is written by the command in it. CPU seconds count (all threads, and child
processes where there are any), since they are the same on a busy machine; ratios are of runs side by side.

`make bench` takes the quick ones, `python -m benchmarks NAME` those of a name. `python -m benchmarks connectors` is all of connectors: rows per
CPU second in and out, the bare client beside them, and Flink beside Kafka and databases.
"""


@dataclass(frozen=True)
class Table:
    """`rows` of texts under `columns`; the first column is aligned to the left."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """What one benchmark found. `about`: what was measured, and how; `notes`: what to read out of
    the tables; `command`: what measures it, unless it is one of `python -m benchmarks`."""

    name: str
    title: str
    about: str
    tables: Sequence[Table]
    notes: Sequence[str] = field(default=())
    command: str = ""


def show(section: Section) -> None:
    """Prints the section."""
    console = Console(width=150)
    for table in section.tables:
        rich = RichTable(title=table.title)
        for i, column in enumerate(table.columns):
            rich.add_column(column, justify="right" if i else "left")
        for row in table.rows:
            rich.add_row(*map(escape, row))
        console.print(rich)
    for note in section.notes:
        console.print(f"- {note}")


def write(section: Section, page: Path = PAGE) -> None:
    """Puts the section in the place of its last version, or at the end of the page."""
    text = page.read_text(encoding="utf-8") if page.exists() else HEAD
    begin, end = f"<!-- {section.name} -->", f"<!-- end of {section.name} -->"
    block = f"{begin}\n{_markdown(section)}\n{end}"
    if begin in text and end in text:
        before, _, rest = text.partition(begin)
        text = before + block + rest.partition(end)[2]
    else:
        text = f"{text.rstrip()}\n\n{block}\n"
    page.write_text(text, encoding="utf-8")


def _markdown(section: Section) -> str:
    parts = [
        f"## {section.title}",
        section.about,
        f"`{section.command or f'python -m benchmarks {section.name}'}` on {machine()}.",
    ]
    for table in section.tables:
        lines = [
            "| " + " | ".join(table.columns) + " |",
            "|" + "--|" + "--:|" * (len(table.columns) - 1),
        ]
        lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in table.rows]
        parts += [f"**{table.title}**", "\n".join(lines)]
    if section.notes:
        parts.append("\n".join(f"- {note}" for note in section.notes))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
