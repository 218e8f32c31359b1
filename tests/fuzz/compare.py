"""Asks both and says where they differ."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.fuzz import known
from tests.fuzz.answers import Answers, question
from tests.fuzz.data import Table
from tests.fuzz.grammar import Query
from tests.sql.golden import Answer, Collected, left_in_the_end
from tests.support import load_oracle

_INVALID = "SQL validation failed"
AT_ONCE = 8  # statements of a script
FIRST = "SET 'pipeline.auto-watermark-interval' = '0';\n"


@dataclass(frozen=True)
class Verdict:
    """`kind`: equal, known (a bug of Flink's), both fail, refused (only Flink runs it), accepted
    (only we do, and Flink says that it is no valid SQL), unplanned (only we do: Flink finds no
    plan, or fails with it), names, types, nullability, rows, order, varies (asked again, it is
    equal). The answers as JSON, an error as its message."""

    kind: str
    ours: Answer
    flink: Answer
    why: str = ""

    @property
    def differs(self) -> bool:
        return self.kind not in ("equal", "known", "both fail", "unplanned", "varies")


@dataclass(frozen=True)
class Flink:
    """A real Flink (of `real_flink`), the SET statements that both get, whether both read all
    before they answer, and what it has answered before."""

    oracle: Any
    settings: str = ""
    batch: bool = False
    answers: Answers = field(default_factory=Answers)

    @property
    def first(self) -> str:
        """What every script begins with."""
        return (
            ("SET 'execution.runtime-mode' = 'batch';\n" if self.batch else "")
            + FIRST
            + self.settings
        )

    def script(
        self, tables: Sequence[Table], folder: Path, statements: Sequence[str], own: bool
    ) -> str:
        """The tables and then the statements, for Flink (`own`) or for us."""
        parts = (*(t.ddl(folder, own) for t in tables), *statements)
        return self.first + "".join(f"{s};\n" for s in parts)

    def numbers(self, tables: Sequence[Table], statements: Sequence[str]) -> range:
        """Those of the statements in the script."""
        before = self.first.count(";") + len(tables)
        return range(before, before + len(statements))

    def ask(
        self, tables: Sequence[Table], folder: Path, statements: Sequence[str], again: bool = False
    ) -> list[Answer]:
        """What it says to each statement; `again`: also where it has said so before."""
        known = {s: question(self.first, tables, s) for s in statements}
        new = [s for s, q in known.items() if again or q not in self.answers.held]
        for start in range(0, len(new), AT_ONCE):  # others ask between
            part = new[start : start + AT_ONCE]
            script = self.script(tables, folder, part, own=True)
            events = self.oracle.run(
                script, "batch" if self.batch else "streaming", keep_going=True
            )
            found = _answers(events)
            if any("NoResourceAvailable" in str(a) for a in found.values()):
                raise RuntimeError("the Flink cluster is broken: start another one")
            for number, statement in zip(self.numbers(tables, part), part, strict=True):
                self.answers.add(known[statement], found.get(number, ["no answer"]))
        return [self.answers.held[known[s]] for s in statements]


@contextmanager
def real_flink() -> Iterator[Any]:
    with load_oracle().Oracle() as flink:
        yield flink


def compared(
    flink: Flink, tables: Sequence[Table], queries: Sequence[Query], again: bool = False
) -> list[Verdict]:
    """A verdict on each query."""
    statements = [q.sql for q in queries]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for table in tables:
            table.write(folder / "data")
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(flink.ask, tables, folder / "data", statements, again)
            ours = _answers(
                our_events(flink.script(tables, folder / "data", statements, own=False), folder)
            )
            theirs = asked.result()
    pairs = zip(
        [ours.get(n, ["no answer"]) for n in flink.numbers(tables, statements)], theirs, strict=True
    )
    return [verdict(o, t, q) for (o, t), q in zip(pairs, queries, strict=True)]


def our_events(script: str, folder: Path) -> Iterable[Mapping[str, Any]]:
    """Our events; errors carry their message."""
    collected = _WithMessages(script)
    with open_runner(folder / "topics") as runner:
        Session(runner, collected, settings={}).run(script)
    return collected.events


class _WithMessages(Collected):
    def error(self, stmt: int, error: Exception) -> None:
        detail = " / ".join(str(getattr(error, x, "") or "") for x in ("message", "detail"))
        self.events.append(
            {
                "stmt": stmt,
                "kind": "error",
                "message": detail if detail.strip(" /") else repr(error),
            }
        )


def _answers(events: Iterable[Mapping[str, Any]]) -> dict[int, Answer]:
    found: dict[int, Answer] = {}
    for event in events:
        number = event["stmt"]
        if event["kind"] == "error":
            found[number] = "error: " + str(event.get("message"))
        elif event["kind"] == "schema" and not isinstance(found.get(number), str):
            found[number] = [json.dumps(event["columns"], ensure_ascii=False)]
        elif event["kind"] == "row":
            held = found.setdefault(number, ["no schema"])
            if isinstance(held, list):
                held.append(json.dumps([event["op"], *event["row"]], ensure_ascii=False))
    return found


def verdict(ours: Answer, flink: Answer, query: Query) -> Verdict:
    if isinstance(ours, str) or isinstance(flink, str):
        alone = (
            "accepted"
            if _INVALID in str(flink) and not known.unplanned(query.sql, str(flink))
            else "unplanned"
        )
        kinds = {(True, True): "both fail", (True, False): "refused", (False, True): alone}
        return Verdict(kinds[isinstance(ours, str), isinstance(flink, str)], ours, flink)
    if query.first_of is not None:
        flink = [flink[0], *known.first_rows(flink[1:], query.first_of)]
    left, right = left_in_the_end(ours), left_in_the_end(flink)
    if left[1:] != right[1:]:
        why = known.reason(query.sql, left, right)
        return Verdict("known" if why else "rows", ours, flink, why)
    kind = "equal" if ours[0] == flink[0] else _schemas(str(ours[0]), str(flink[0]))
    if kind == "equal" and query.exact and ours[1:] != flink[1:]:
        return Verdict("order", ours, flink)
    return Verdict(kind, ours, flink)


def _known(columns: str) -> str:
    """Without what is known to differ: the time of a window is never NULL here, and there are no
    time attributes within arrays."""
    return columns.replace(" NOT NULL *ROWTIME*", " *ROWTIME*").replace(" *ROWTIME*>", ">")


def _schemas(ours: str, flink: str) -> str:
    left, right = json.loads(ours), json.loads(flink)
    if [n for n, _ in left] != [n for n, _ in right]:
        return "names"
    if _known(ours) == _known(flink):
        return "equal"
    same = [
        a.replace(" NOT NULL", "") == b.replace(" NOT NULL", "")
        for (_, a), (_, b) in zip(left, right, strict=True)
    ]
    return "nullability" if all(same) else "types"
