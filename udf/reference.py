"""The reference of functions, all of it from the definitions: usage, text and examples.

`python -m udf.reference docs/functions.md` writes the page. A definition's docstring begins with
its usage and a colon; its examples are lines `>>> expression`, each with the result below it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from udf.aggregates.registry import documented
from udf.registry import Definition, lookup, names

_EXAMPLE = re.compile(r">>> (.*)\n(.*)")
# Topic, or folder of topics -> the section of the page that describes it.
TITLES = {
    "logic.comparison": "Comparison",
    "text.like": "Patterns",
    "text.similar": "Patterns",
    "logic.boolean": "Logic",
    "numbers.randomness": "Random values",
    "numbers.bitmaps": "Bitmaps",
    "numbers": "Arithmetic",
    "text.regexps": "Regular expressions",
    "text.regexp_functions": "Regular expressions",
    "text.urls": "Web addresses",
    "text.hashing": "Hash functions",
    "text.network": "Network addresses",
    "text.log_parsing": "Lines of logs",
    "text.security_events": "Lines of logs",
    "text": "Strings",
    "time": "Dates and times",
    "logic.conditional": "Conditions",
    "casts.rule_heads": "Rules",
    "casts": "Conversion",
    "objects": "Arrays, maps and rows",
    "construction": "Arrays, maps and rows",
    "arrays": "Arrays, maps and rows",
    "json": "JSON",
    "aggregates": "Aggregates",
}
ORDER = (
    "Comparison",
    "Patterns",
    "Logic",
    "Arithmetic",
    "Random values",
    "Strings",
    "Regular expressions",
    "Web addresses",
    "Dates and times",
    "Conditions",
    "Conversion",
    "Arrays, maps and rows",
    "JSON",
    "Hash functions",
    "Bitmaps",
    "Network addresses",
    "Lines of logs",
    "Rules",
    "Aggregates",
)
# Definitions that no text of SQL calls by their name.
_INTERNAL = frozenset({"CHECK NOT NULL", "CHECK ONE ROW", "TIMESTAMP MINUS"})


@dataclass(frozen=True)
class Example:
    expression: str
    result: str


@dataclass(frozen=True)
class Entry:
    """A function of the reference: all its names, its usage, its description, examples."""

    names: tuple[str, ...]
    usage: str
    text: str
    examples: tuple[Example, ...]
    topic: str
    deterministic: bool = True


def examples_of(doc: str) -> tuple[Example, ...]:
    return tuple(Example(m[1].strip(), m[2].strip()) for m in _EXAMPLE.finditer(doc))


def entry_of(doc: str, called: tuple[str, ...], topic: str, deterministic: bool) -> Entry:
    """The parts of a docstring; its usage is what stands before the first colon that a blank
    follows."""
    prose = " ".join(_EXAMPLE.sub("", doc).split())
    usage, _, text = prose.partition(": ")
    return Entry(called, usage, text[:1].upper() + text[1:], examples_of(doc), topic, deterministic)


def entries() -> list[Entry]:
    """Returns all functions in the order of the page; those with one docstring are one entry."""
    grouped: dict[tuple[str, str], list[Definition]] = {}
    for name in names():
        definition = lookup(name)
        if definition is not None and name not in _INTERNAL:
            grouped.setdefault((definition.topic, definition.doc), []).append(definition)
    result = [
        entry_of(doc, tuple(d.name for d in ds), topic, all(d.deterministic for d in ds))
        for (topic, doc), ds in grouped.items()
    ]
    order = {title: i for i, title in enumerate(ORDER)}
    return sorted(result, key=lambda e: (order[title_of(e)], e.names))


def title_of(entry: Entry) -> str:
    """The section of the page: that of the entry's topic, else that of the folder of its topic."""
    return TITLES.get(entry.topic) or TITLES[entry.topic.partition(".")[0]]


def aggregate_entries() -> list[Entry]:
    """Returns all aggregates by name."""
    return [
        entry_of(doc, called, "aggregates", True) for called, doc in sorted(documented().items())
    ]


def entry_named(name: str) -> Entry | None:
    """The function or aggregate of that name in any case; None where there is none."""
    return next((e for e in (*entries(), *aggregate_entries()) if name.upper() in e.names), None)


def function_names() -> list[str]:
    """The names of all functions, operators and aggregates that SQL text can have."""
    return sorted({name for e in (*entries(), *aggregate_entries()) for name in e.names})


def page() -> str:
    """The reference page in Markdown."""
    lines = [
        "# Functions",
        "",
        "Written by `python -m udf.reference docs/functions.md`. Semantics are those of Flink 2.3",
        "unless a text says that a function is an extension. A result is NULL if an argument is,",
        "unless the text says otherwise; an error makes a dead letter of the row, or ends the job",
        "(`job.on-error`).",
    ]
    title = ""
    for entry in (*entries(), *aggregate_entries()):
        if title_of(entry) != title:
            title = title_of(entry)
            lines += ["", f"## {title}"]
        lines += ["", *_markdown(entry)]
    return "\n".join(lines) + "\n"


def _markdown(entry: Entry) -> list[str]:
    heading = ", ".join(f"`{n}`" for n in entry.names)
    lines = [f"### {heading}", "", f"`{entry.usage}`", "", entry.text]
    if not entry.deterministic:
        lines += ["", "Not deterministic: equal arguments may give different results."]
    for example in entry.examples:
        lines += ["", "```sql", f"SELECT {example.expression}  -- {example.result}", "```"]
    return lines


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
