"""The same expressions on Flink, in one JVM: CPU of a job that evaluates each over four columns of its type, less that of
a job with four bare columns.

Rows are decoded once and repeated by a source of ours (flink/RepeatFactory.java), object reuse is on: what is left is the
expression. A job first warms up; then all threads of the JVM count, the compiler's and the collector's too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
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
WARM_MS, MEASURE_MS = 800, 700
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
        _table("The usual ones", [f for f in found if f.case.usual]),
        _table("The others", [f for f in found if not f.case.usual]),
        _missed([f for f in found if not f.reached]),
    ]
    about = (
        f"CPU nanoseconds a row: ours over batches of {ROWS:,} rows as above, Flink's in a job with a source that repeats "
        f"rows, less that of a job with bare columns; one JVM, {WARM_MS / 1000:.1f} s of warming up for every expression. "
        f"Targets: the usual ones {USUAL_TARGET:.0f} times faster, the others not more than {1 / TARGET:.0f} times slower."
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


def _table(title: str, found: Sequence[Figure]) -> Table:
    rows = [[f"`{f.case.text}`", shown(f.ours), *_flinks(f)] for f in found]
    return Table(title, ["expression", "ours ns", "Flink ns", "Flink needs"], rows)


def _missed(found: Sequence[Figure]) -> Table:
    ordered = sorted(found, key=lambda f: (not f.case.usual, f.ratio))
    rows = [[f"`{f.case.text}`", shown(f.ours), *_flinks(f), f.case.reason] for f in ordered]
    return Table("Slower than the target", ["expression", "ours ns", "Flink ns", "Flink needs", "why"], rows)


def _flinks(figure: Figure) -> tuple[str, str]:
    return ("failed", "") if figure.flink is None else (shown(figure.flink), f"{figure.ratio:.1f}×")


def flink_ns(chosen: Sequence[Case]) -> dict[str, float]:
    """Nanoseconds a row by expression; what Flink refuses is printed, and missing."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        _write_rows(folder / "rows.json")
        script = folder / "kernels.sql"
        script.write_text(_script(chosen, folder), encoding="utf-8")
        marks = _run(script, folder)
    bare = {kind: marks[kind] for kind in _kinds(chosen)}
    return {c.text: (marks[str(i)] - bare[_kind(c)]) / COPIES for i, c in enumerate(chosen) if str(i) in marks}


def _kind(case: Case) -> str:
    """The type of the first column, whose bare job is subtracted."""
    return COLUMNS[next(iter(case.columns()), "i")][0]


def _kinds(chosen: Sequence[Case]) -> dict[str, str]:
    """A column of every type that is needed."""
    return {_kind(c): next(iter(c.columns()), "i") for c in chosen}


def _write_rows(path: Path) -> None:
    columns = {f"{n}{s}": values(n, FLINK_ROWS, seed) for seed, s in enumerate(_SUFFIXES) for n in COLUMNS}
    rows = zip(*columns.values(), strict=True)
    path.write_text("".join(json.dumps(dict(zip(columns, r, strict=True))) + "\n" for r in rows), encoding="utf-8")


def _script(chosen: Sequence[Case], folder: Path) -> str:
    columns = ", ".join(f"{n}{s} {kind}" for s in _SUFFIXES for n, (kind, _) in COLUMNS.items())
    options = {
        "connector": "repeat", "path": folder / "rows.json", "marks": folder / "marks", "warm-ms": WARM_MS,
        "measure-ms": MEASURE_MS, "format": "json", "json.timestamp-format.standard": "SQL",
    }  # fmt: skip
    given = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    statements = ["SET 'pipeline.object-reuse' = 'true'", f"CREATE TABLE source ({columns}) WITH ({given})"]
    bare = [_job(kind, kind, [f"{column}{s}" for s in _SUFFIXES]) for kind, column in _kinds(chosen).items()]
    statements += bare  # the first jobs of a JVM only warm it up
    for i, case in enumerate(chosen):
        kind = str(case.bound().type.with_nullable(True))
        statements.append(_job(str(i), kind, [case.over(s) for s in _SUFFIXES]))
    statements += [b.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1) for b in bare]
    return ";\n".join(statements) + ";\n"


def _job(label: str, kind: str, expressions: Sequence[str]) -> str:
    sink = f"`sink {label}`"
    columns = ", ".join(f"c{i} {kind}" for i in range(len(expressions)))
    return (
        f"CREATE TABLE {sink} ({columns}) WITH ('connector' = 'blackhole');\n"
        f"INSERT INTO {sink} SELECT {', '.join(expressions)} FROM source /*+ OPTIONS('label' = '{label}') */"
    )


def _run(script: Path, folder: Path) -> Mapping[str, float]:
    """Nanoseconds a row of every job by its label."""
    environment = {**os.environ, "FLINK_EXTRA_JARS": str(_compiled(folder))}
    command = [sys.executable, str(ORACLE / "flink_oracle.py"), "--time", "--repeat", "1", "--heap", "2g", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for event in map(json.loads, done.stdout.splitlines()):
        if event["kind"] == "error":
            print(f"Flink: statement {event['stmt']}: {event['message'][:300]}", file=sys.stderr)
    lines = [line.rsplit(" ", 2) for line in (folder / "marks").read_text(encoding="utf-8").splitlines()]
    return {label: int(nanos) / int(rows) for label, rows, nanos in lines}


def _compiled(folder: Path) -> Path:
    """A folder of classes with the source connector, to be put beside the oracle's."""
    out = folder / "classes"
    services = out / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.table.factories.Factory").write_text("RepeatFactory\n")
    cache = Path(os.environ.get("FLINK_ORACLE_CACHE", ORACLE / ".cache"))
    jars = os.environ.get("FLINK_LIB", str(cache / "lib"))
    subprocess.run(["javac", "-nowarn", "-d", str(out), "-cp", f"{jars}/*", str(SOURCE)], check=True)
    return out
