"""Golden scripts: what real Flink says to each statement of a script, and what the engine says.

`AREA/NAME.sql` holds statements. Beside it are `NAME.expected.jsonl`, recorded from Flink
(`record.py`): a header with Flink's version and the hash of the statements and their data, then one
event per line; and `NAME.errors.txt`, our own words for the statements that fail. `${DATA}` is the
folder `data`, `${OUT}` an empty one for what a script writes.

A comment line directly above a statement directs how it is compared:

    -- rowsort            its rows come in any order (several inputs) -- materialized       only
    what its changes leave in the end counts (Flink's changes vary: two inputs) -- differs: reason
    Flink says something else; what we say is in `NAME.ours.jsonl`, and all is in differences.md
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parser.errors import SqlError, render
from parser.script import Piece, split, substitute
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.results import rows_of, schema_event
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session

FLINK = "2.3.0"
FOLDER = Path(__file__).parent
DATA = FOLDER / "data"
_DATA_FILE = re.compile(r"\$\{DATA\}/([\w./-]+)")
_PART_FILE = re.compile(r"part-script-[\w-]+")
_BATCH = re.compile(r"^SET 'execution.runtime-mode' = 'batch';", re.MULTILINE)
_CREATE_AS = re.compile(r"(CREATE|REPLACE)\b.*\bTABLE\b.*\bAS\s+SELECT\b", re.DOTALL)
_JOB_ID = re.compile(r"JobID: [0-9a-f]{32}")

Event = dict[str, Any]
# What a statement gave: [schema, [kind, row], …], "error", or nothing.
Answer = list[Any] | str


@dataclass(frozen=True)
class Script:
    """One script and the files beside it."""

    path: Path

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def pieces(self) -> list[Piece]:
        return split(self.text)

    def beside(self, suffix: str) -> Path:
        return self.path.with_suffix(suffix)

    @cached_property
    def digest(self) -> str:
        """Of the statements (not of the comments between them) and of all data files that they
        name."""
        found = hashlib.sha256()
        for piece in self.pieces:
            found.update(piece.sql.encode() + b";\0")
        for name in sorted(set(_DATA_FILE.findall(self.text))):
            if (DATA / name).exists():  # some scripts read what is not there
                found.update(name.encode() + b"\0" + (DATA / name).read_bytes())
        return found.hexdigest()

    @cached_property
    def mode(self) -> str:
        """Flink's: batch where the script sets it, which it must do before all else."""
        return "batch" if _BATCH.search(self.text) else "streaming"

    @cached_property
    def rowsort(self) -> frozenset[int]:
        return frozenset(n for n, d in self._directives() if d == "rowsort")

    @cached_property
    def materialized(self) -> frozenset[int]:
        return frozenset(n for n, d in self._directives() if d == "materialized")

    @cached_property
    def differs(self) -> Mapping[int, str]:
        """Statement to the reason why we differ from Flink."""
        prefix = "differs: "
        return {n: d.removeprefix(prefix) for n, d in self._directives() if d.startswith(prefix)}

    def _directives(self) -> Iterable[tuple[int, str]]:
        lines = self.text.split("\n")
        for number, piece in enumerate(self.pieces):
            above = piece.position.line - 2
            while above >= 0 and lines[above].startswith("-- "):
                yield number, lines[above].removeprefix("-- ").strip()
                above -= 1

    def with_folders(self, out: Path) -> str:
        return substitute(self.text, {"DATA": str(DATA), "OUT": str(out)})

    def portable(self, text: str, out: Path) -> str:
        """Text with the folders as they are named in scripts, and files without the hour at which
        they were written."""
        return _PART_FILE.sub(
            "part-0", text.replace(str(DATA), "${DATA}").replace(str(out), "${OUT}")
        )


def scripts() -> list[Script]:
    return [Script(p) for p in sorted(FOLDER.glob("*/*.sql"))]


@dataclass
class Collected:
    """A session's output, as events and as messages. `portable` makes of what stands before a place
    in a line what `text` has there."""

    text: str
    events: list[Event] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    ran: str = ""
    portable: Callable[[str], str] = str

    def schema(self, stmt: int, schema: Schema) -> None:
        self.events.append({"stmt": stmt, "kind": "schema", "columns": schema_event(schema)})

    def rows(self, stmt: int, batch: Batch) -> None:
        self.events += [
            {"stmt": stmt, "kind": "row", "op": op, "row": row} for op, row in rows_of(batch)
        ]

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.events.append({"stmt": stmt, "kind": "error"})
        if self.ran and (at := error.position) is not None:
            before = self.ran.split("\n")[at.line - 1][: at.column - 1]
            error.position = replace(at, column=len(self.portable(before)) + 1)
        self.messages.append(f"statement {stmt}, " + render(error, self.text))


def run(
    script: Script, folder: Path, rows_per_read: int, settings: Mapping[str, str] | None = None
) -> tuple[list[Event], str]:
    """Our events for the script, and our messages about the statements that fail. `folder` is
    empty."""
    out, data = folder / "out", folder / "topics"
    out.mkdir()
    ran = script.with_folders(out)  # messages show lines without the folders of this machine
    collected = Collected(script.text, ran=ran, portable=lambda t: script.portable(t, out))
    with open_runner(data, rows_per_read) as runner:
        Session(runner, collected, settings=dict(settings or {})).run(ran)
    lines = script.portable(lines_of(collected.events), out)
    messages = script.portable("\n\n".join(collected.messages), out)
    return events_of(lines), messages + "\n" if messages else ""


def lines_of(events: Iterable[Event]) -> str:
    return "".join(json.dumps(e, ensure_ascii=False) + "\n" for e in events)


def events_of(lines: str) -> list[Event]:
    return [json.loads(line) for line in lines.splitlines()]


def header(script: Script) -> Event:
    return {"flink": FLINK, "sha256": script.digest, "statements": len(script.pieces)}


def answers(script: Script, events: Iterable[Event]) -> dict[int, Answer]:
    """What each statement gave. Of a failing one only that it fails: which rows came before is a
    matter of timing."""
    found: dict[int, Answer] = {}
    floats: list[int] = []
    for event in events:
        number = event["stmt"]
        match event["kind"]:
            case "error":
                found[number] = "error"
            case "schema":
                found[number] = [_exact(event["columns"])]
                floats = [
                    i for i, (_, kind) in enumerate(event["columns"]) if kind.startswith("FLOAT")
                ]
            case "row" if number in found and found[number] != "error":
                held = found[number]
                assert isinstance(held, list)
                held.append(_exact([event["op"], *_rounded(event["row"], floats)]))
    for number in script.rowsort & found.keys():
        held = found[number]
        if isinstance(held, list):
            held[1:] = sorted(held[1:])
    return {n: left_in_the_end(a) if n in script.materialized else a for n, a in found.items()}


def left_in_the_end(answer: Answer) -> Answer:
    """The schema, and the rows that are there after all changes, in order of their text."""
    if not isinstance(answer, list):
        return answer
    counts: Counter[str] = Counter()
    for op, *row in map(json.loads, answer[1:]):
        counts[_exact(row)] += -1 if op in ("-U", "-D") else 1
    left = [
        _exact(["+I" if n > 0 else "-D", *json.loads(row)])
        for row, n in counts.items()
        for _ in range(abs(n))
    ]
    return [answer[0], *sorted(left)]


def _rounded(row: list[Any], floats: Iterable[int]) -> list[Any]:
    """FLOATs as the shortest text names them; before version 19 Java prints more digits than
    that."""
    found = list(row)
    for i in floats:
        if isinstance(found[i], float):
            found[i] = float(str(np.float32(found[i])))
    return found


def _exact(value: object) -> str:
    """As text, since to Python 1 == 1.0 == True."""
    return json.dumps(value, ensure_ascii=False)


def recorded(script: Script, events: Iterable[Mapping[str, Any]], out: Path) -> list[Event]:
    """The oracle's events as they are kept: schemas, rows and errors."""
    kept = [{k: v for k, v in e.items() if k not in ("id", "file")} for e in events]
    failed = {e["stmt"] for e in kept if e["kind"] == "error"}
    # -1: rows that nobody counted.
    receipts = {n for n, p in enumerate(script.pieces) if _CREATE_AS.match(p.sql)}
    failed |= receipts
    kept = [
        e
        for e in kept
        if e["kind"] == "error" or (e["kind"] in ("schema", "row") and e["stmt"] not in failed)
    ]
    return events_of(_JOB_ID.sub("JobID: 0", script.portable(lines_of(kept), out)))
