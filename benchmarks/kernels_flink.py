"""The same expressions on Flink, in one JVM: CPU of a job that evaluates each over four columns of
their types, less that of a job with four bare integers.

Rows are decoded once and repeated by a source of ours (flink/RepeatFactory.java), object reuse is
on: what is left is the expression. A job first warms up; then all threads of the JVM count, the
compiler's and the collector's too."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kernels import ROWS, Case, batches, cases, ours_ns, shown
from benchmarks.kernels_data import COLUMNS, values
from benchmarks.page import Section, Table
from benchmarks.rules_gen import ORACLE

SOURCE = Path(__file__).parent / "flink" / "RepeatFactory.java"
# So few rows stay in the processor's caches, as rows do that were just decoded.
FLINK_ROWS = 1_000
COPIES = 4
WARM_MS, MEASURE_MS = 800, 1_200
# The job with bare columns is measured again after so many expressions.
BARE_EVERY = 25
BARE = "bare"
USUAL_TARGET, TARGET = 3.0, 0.5
_SUFFIXES = [f"_{k}" for k in range(1, COPIES + 1)]


@dataclass(frozen=True)
class Figure:
    """CPU nanoseconds a row of both sides; `flink` is None where Flink gave an error."""

    case: Case
    ours: float
    flink: float | None

    @property
    def ratio(self) -> float:
        return self.flink / self.ours if self.flink is not None else 0.0

    @property
    def reached(self) -> bool:
        return self.ratio >= (USUAL_TARGET if self.case.usual else TARGET)


def run() -> Section:
    chosen = [c for c in cases() if os.environ.get("KERNELS", "") in c.text]
    flink = flink_ns(chosen)
    given = batches()
    found = [Figure(c, ours_ns(c, given), flink.get(c.text)) for c in chosen]
    tables = [
        _summary(found),
        _figures("The usual ones", [f for f in found if f.case.usual]),
        _figures("The others", [f for f in found if not f.case.usual]),
        _missed([f for f in found if not f.reached]),
    ]
    about = (
        f"CPU nanoseconds a row: ours over batches of {ROWS:,} rows as above, Flink's in a job with"
        " a source that repeats rows, less that of a job with bare columns; one JVM,"
        f" {WARM_MS / 1000:.1f} s of warming up for every expression. Targets: the usual ones"
        f" {USUAL_TARGET:.0f} times faster, the others not more than {1 / TARGET:.0f} times slower."
    )
    return Section("kernels_flink", "Functions beside Flink", about, tables)


def _summary(found: Sequence[Figure]) -> Table:
    rows = []
    for name, usual in (("the usual ones", True), ("the others", False)):
        ratios = sorted(f.ratio for f in found if f.case.usual == usual)
        reached = sum(f.reached for f in found if f.case.usual == usual)
        middle = f"{ratios[len(ratios) // 2]:.1f}×" if ratios else ""
        rows.append([name, str(len(ratios)), str(reached), middle])
    return Table("Targets", ["", "expressions", "reach the target", "Flink needs, median"], rows)


def _figures(title: str, found: Sequence[Figure]) -> Table:
    rows = [[f"`{f.case.text}`", shown(f.ours), *_flinks(f)] for f in found]
    return Table(title, ["expression", "ours ns", "Flink ns", "Flink needs"], rows)


def _missed(found: Sequence[Figure]) -> Table:
    ordered = sorted(found, key=lambda f: (not f.case.usual, f.ratio))
    rows = [[f"`{f.case.text}`", shown(f.ours), *_flinks(f), f.case.reason] for f in ordered]
    return Table(
        "Slower than the target", ["expression", "ours ns", "Flink ns", "Flink needs", "why"], rows
    )


def _flinks(figure: Figure) -> tuple[str, str]:
    return ("failed", "") if figure.flink is None else (shown(figure.flink), f"{figure.ratio:.1f}×")


def flink_ns(chosen: Sequence[Case]) -> dict[str, float]:
    """Nanoseconds a row by expression; what Flink refuses is printed, and missing."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        script = folder / "kernels.sql"
        script.write_text(";\n".join(_statements(chosen, folder)) + ";\n", encoding="utf-8")
        marks = _run(script, folder)
    bare = statistics.median(marks[BARE][1:])  # the first job of a JVM only warms it up
    return {
        c.text: (marks[str(i)][0] - bare) / COPIES for i, c in enumerate(chosen) if str(i) in marks
    }


def _statements(chosen: Sequence[Case], folder: Path) -> Iterator[str]:
    yield "SET 'pipeline.object-reuse' = 'true'"
    yield from _table(folder, ["i"])
    tables: dict[tuple[str, ...], str] = {("i",): "source_i"}
    for i, case in enumerate(chosen):
        if i % BARE_EVERY == 0:
            yield from _job(BARE, "source_i", "INT", [f"i{s}" for s in _SUFFIXES])
        columns = tuple(sorted(case.columns())) or ("i",)
        if columns not in tables:
            yield from _table(folder, columns)
            tables[columns] = f"source_{'_'.join(columns)}"
        kind = str(case.bound().type.with_nullable(True))
        yield from _job(str(i), tables[columns], kind, [case.over(s) for s in _SUFFIXES])
    yield from _job(BARE, "source_i", "INT", [f"i{s}" for s in _SUFFIXES])


def _table(folder: Path, columns: Sequence[str]) -> Iterator[str]:
    """A table with these columns, each in several copies that differ, and its rows."""
    name = f"source_{'_'.join(columns)}"
    held = {
        f"{n}{s}": values(n, FLINK_ROWS, seed) for seed, s in enumerate(_SUFFIXES) for n in columns
    }
    path = folder / f"{name}.json"
    lines = [
        json.dumps(dict(zip(held, row, strict=True))) + "\n"
        for row in zip(*held.values(), strict=True)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    declared = ", ".join(f"{n}{s} {COLUMNS[n][0]}" for s in _SUFFIXES for n in columns)
    options = {
        "connector": "repeat", "path": path, "marks": folder / "marks", "warm-ms": WARM_MS, "measure-ms": MEASURE_MS,
        "format": "json", "json.timestamp-format.standard": "SQL",
    }  # fmt: skip
    given = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    yield f"CREATE TABLE {name} ({declared}) WITH ({given})"


def _job(label: str, table: str, kind: str, expressions: Sequence[str]) -> Iterator[str]:
    columns = ", ".join(f"c{i} {kind}" for i in range(len(expressions)))
    yield f"CREATE TABLE IF NOT EXISTS `sink {label}` ({columns}) WITH ('connector' = 'blackhole')"
    yield (
        f"INSERT INTO `sink {label}` SELECT {', '.join(expressions)} FROM {table} /*+"
        f" OPTIONS('label' = '{label}') */"
    )


def _run(script: Path, folder: Path) -> Mapping[str, list[float]]:
    """Nanoseconds a row of the jobs of each label."""
    environment = {**os.environ, "FLINK_EXTRA_JARS": str(_compiled(folder))}
    command = [
        sys.executable,
        str(ORACLE / "flink_oracle.py"),
        "--time",
        "--repeat",
        "1",
        "--heap",
        "2g",
        str(script),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for event in map(json.loads, done.stdout.splitlines()):
        if event["kind"] == "error":
            print(f"Flink: statement {event['stmt']}: {event['message'][:300]}", file=sys.stderr)
    if done.stderr:  # the JVM ended in the middle
        raise RuntimeError(done.stderr[-2000:])
    marks: dict[str, list[float]] = {}
    for label, ns in (
        line.split() for line in (folder / "marks").read_text(encoding="utf-8").splitlines()
    ):
        marks.setdefault(label, []).append(float(ns))
    return marks


def _compiled(folder: Path) -> Path:
    """A folder of classes with the source connector, to be put beside the oracle's."""
    out = folder / "classes"
    services = out / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.table.factories.Factory").write_text("RepeatFactory\n")
    cache = Path(os.environ.get("FLINK_ORACLE_CACHE", ORACLE / ".cache"))
    jars = os.environ.get("FLINK_LIB", str(cache / "lib"))
    subprocess.run(
        ["javac", "-nowarn", "-d", str(out), "-cp", f"{jars}/*", str(SOURCE)], check=True
    )
    return out
