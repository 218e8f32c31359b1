"""Writes docs/spark-support.md: what all golden scripts give on Spark, beside the embedded executor.

    python -m tests.spark.matrix                      # all of them in stages, without a JVM
    python -m tests.spark.matrix --spark-minutes 30   # and as many as fit in that time on Spark

`build/spark-matrix` (`--results`) has what was found of each script: another run goes on with the
others, and several may run beside each other.

Each script runs twice. A statement is the same if it leaves the same rows, or fails with the same
words; it is refused if Spark alone refuses it."""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlengine.executors.spark.session import spark_session
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.spark.staged import Staged
from tests.spark.test_goldens_on_spark import NOT_COMPARED, Open
from tests.sql.golden import (
    Answer,
    Collected,
    Script,
    answers,
    events_of,
    left_in_the_end,
    lines_of,
    scripts,
)
from tests.support import ROOT

PAGE = ROOT / "docs" / "spark-support.md"
SAME, REFUSED, ORDER, DIFFERENT = "same", "refused", "in another order", "different"
KINDS = (SAME, REFUSED, ORDER, DIFFERENT)


@dataclass(frozen=True)
class Given:
    """What a script gives: the answer of each statement, and the words of those that fail."""

    answers: Mapping[int, Answer]
    words: Mapping[int, str]


@dataclass
class Area:
    """The outcomes of a folder of scripts, and why what is not the same is not."""

    name: str
    scripts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, reason: str, statement: str) -> None:
        self.kinds[kind] += 1
        if reason:
            self.reasons.setdefault(f"{kind}: {reason}", []).append(statement)


def given(script: Script, folder: Path, open_: Open) -> Given:
    """Runs a script in an empty folder."""
    out = folder / "out"
    out.mkdir(parents=True)
    collected = Collected(script.text)
    with open_(folder / "topics") as runner:
        Session(runner, collected).run(script.with_folders(out))
    found = answers(script, events_of(script.portable(lines_of(collected.events), out)))
    words = (script.portable(m, out).partition(", ") for m in collected.messages)
    said = {int(number.removeprefix("statement ")): text for number, _, text in words}
    return Given({n: left_in_the_end(a) for n, a in found.items()}, said)


def compared(script: Script, here: Given, there: Given) -> Iterator[tuple[int, str, str]]:
    """Yields each statement that gives something, with its kind and the reason for it. EXPLAIN has
    more to say on Spark."""
    explains = {n for n, piece in enumerate(script.pieces) if piece.sql.startswith("EXPLAIN")}
    for number in sorted({*here.answers, *there.answers} - explains):
        same = here.answers.get(number) == there.answers.get(number)
        words = there.words.get(number)
        if same and here.words.get(number) == words:
            yield number, SAME, ""
        elif (script.name, number) in NOT_COMPARED:
            yield number, ORDER, NOT_COMPARED[script.name, number]
        elif words is not None and "on Spark" in words and number not in here.words:
            yield number, REFUSED, _first(words)
        else:
            yield number, DIFFERENT, "other rows" if words is None else _first(words)


def _first(words: str) -> str:
    """The message of an error, without its place."""
    line = words.split("\n")[0]
    return line.partition(": ")[2] or line


def run(chosen: Iterable[Script], open_: Open, results: Path, end: float | None = None) -> None:
    """Runs the scripts of which `results` has no file yet, and writes one for each; none begins
    after `end` (monotonic s)."""
    results.mkdir(parents=True, exist_ok=True)
    for script in chosen:
        file = results / f"{script.name.replace('/', '-')}.json"
        if file.exists() or (end is not None and time.monotonic() > end):
            continue
        with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
            here = given(script, Path(folder) / "embedded", open_runner)
            there = given(script, Path(folder) / "spark", open_)
        found = list(compared(script, here, there))
        file.write_text(json.dumps(found), encoding="utf-8")
        print(f"{script.name}: {dict(Counter(kind for _, kind, _ in found))}", flush=True)


def read(chosen: Iterable[Script], results: Path) -> dict[str, Area]:
    """Reads the outcomes of scripts that were run, by folder."""
    areas: dict[str, Area] = {}
    for script in chosen:
        area = areas.setdefault(script.path.parent.name, Area(script.path.parent.name))
        file = results / f"{script.name.replace('/', '-')}.json"
        if file.exists():
            area.scripts += 1
            for number, kind, reason in json.loads(file.read_text(encoding="utf-8")):
                area.add(kind, reason, f"{script.name} {number}")
    return areas


# ---- the page ------------------------------------------------------------------------------------


def page(staged: Mapping[str, Area], on_spark: Mapping[str, Area]) -> str:
    """The text of the page."""
    total, there = _total(staged), _total(on_spark)
    parts = [
        "# What runs on Spark",
        (
            f"`python -m tests.spark.matrix` has run {_of_all(total)} golden scripts, whose rows are recorded from Flink, in the"
            " embedded executor and in the tasks that Spark runs: without a JVM, with all that is between"
            f" them, and {there.scripts} scripts on Spark itself, in `local[2]`. Counted are statements that give rows or fail."
            " [Spark](spark.md) says more."
        ),
        _table(staged, on_spark, total, there),
        *_reasons("Refused", REFUSED, staged, on_spark),
        *_reasons("In another order", ORDER, staged, on_spark),
        *_reasons("Different", DIFFERENT, staged, on_spark),
    ]
    return "\n\n".join(parts) + "\n"


def _of_all(total: Area) -> str:
    all_of_them = len(scripts())
    return f"{'the' if total.scripts == all_of_them else f'{total.scripts} of the'} {all_of_them}"


def _total(areas: Mapping[str, Area]) -> Area:
    total = Area("all")
    for area in areas.values():
        total.scripts += area.scripts
        total.kinds.update(area.kinds)
    return total


def _table(
    staged: Mapping[str, Area], on_spark: Mapping[str, Area], total: Area, there: Area
) -> str:
    lines = [
        "| scripts of | same | refused | in another order | different | on Spark itself, of those |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    pairs = [(staged[n], on_spark.get(n, Area(n))) for n in sorted(staged)]
    for area, real in [*pairs, (total, there)]:
        counts = " | ".join(f"{area.kinds[kind]:,}" for kind in KINDS)
        name = f"`tests/sql/{area.name}`" if area is not total else "all"
        lines.append(f"| {name} | {counts} | {_on_spark(real)} |")
    return "\n".join(lines)


def _on_spark(area: Area) -> str:
    if not area.scripts:
        return "-"
    others = [f"{area.kinds[k]:,} {k}" for k in KINDS[1:] if area.kinds[k]]
    return ", ".join([f"{area.kinds[SAME]:,} same", *others])


def _reasons(title: str, kind: str, *runs: Mapping[str, Area]) -> Iterator[str]:
    found: dict[str, dict[str, None]] = {}
    for area in (a for areas in runs for a in areas.values()):
        for reason, statements in area.reasons.items():
            if reason.startswith(f"{kind}: "):
                text = reason.removeprefix(f"{kind}: ")
                found.setdefault(text, {}).update(dict.fromkeys(statements))
    if found:
        lines = ["| why | statements |", "|--|--|"]
        lines += [f"| {_cell(why)} | {_few(list(of))} |" for why, of in sorted(found.items())]
        yield f"## {title}"
        yield "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _few(statements: Sequence[str]) -> str:
    more = f" and {len(statements) - 5} more" if len(statements) > 5 else ""
    return ", ".join(statements[:5]) + more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=math.inf, help="for runs without a JVM")
    parser.add_argument("--spark-minutes", type=float, default=0.0)
    parser.add_argument("--results", type=Path, default=Path("build/spark-matrix"))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    staged, on_spark = options.results / "staged", options.results / "spark"
    chosen = scripts()
    random.shuffle(chosen)  # of several processes each does its part; some of each folder on Spark
    end = time.monotonic() + options.minutes * 60
    run(chosen, lambda data: script_runner(data, 4096, Staged()), staged, end)
    if options.spark_minutes:
        session = spark_session("matrix", cores=2)
        end = time.monotonic() + options.spark_minutes * 60
        run(chosen, lambda data: open_runner(data, where="spark"), on_spark, end)
        session.stop()
    known = scripts()
    PAGE.write_text(page(read(known, staged), read(known, on_spark)), encoding="utf-8")


if __name__ == "__main__":
    main()
