"""As many of the 1,414 real rules as Flink can run as one STATEMENT SET, beside ours over the same
events.

Flink makes a task of each rule and Java code of each condition. The rules with the most comparisons
are left out until the rest compiles and runs; the names of those left out are written beside the
page."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import sigma
from benchmarks.page import PAGE, Section, Table
from benchmarks.rules_gen import ORACLE
from benchmarks.rules_real import one_pass
from rules.options import Options
from tests.conformance.sigma import Rule, table_of

# Numbers of rules to try, those with the fewest comparisons first; the first that runs counts.
SIZES = (1414, 1000, 700, 400, 200, 100)
COPIES = 5
PATIENCE_S = 900
LEFT_OUT = PAGE.with_name("benchmarks-left-out.txt")


@dataclass(frozen=True)
class Flink:
    """CPU µs an event of the second and the first run, and the events of a run."""

    rules: Sequence[Rule]
    warm: float
    cold: float


def run() -> Section:
    ordered = sorted(sigma.all_rules(), key=_comparisons)
    tried: list[str] = []
    for size in SIZES:
        chosen = ordered[:size]
        print(f"{size} rules on Flink …", file=sys.stderr)
        found, why = _flink(chosen)
        if found is not None:
            return _section(found, ordered[size:], tried)
        tried.append(f"{size:,} rules: {why}")
    raise RuntimeError(f"Flink ran none of the sets: {'; '.join(tried)}")


def _section(flink: Flink, left_out: Sequence[Rule], tried: Sequence[str]) -> Section:
    ours = _ours(flink.rules)
    LEFT_OUT.write_text(
        "".join(f"{r.id}\t{_comparisons(r)} comparisons\n" for r in left_out), encoding="utf-8"
    )
    row = [
        f"{len(flink.rules):,}",
        f"{ours:.1f}",
        f"{flink.warm:,.1f}",
        f"{flink.cold:,.1f}",
        f"{flink.warm / ours:,.0f}×",
    ]
    columns = [
        "rules",
        "ours, CPU µs an event",
        "Flink 2.3, second run",
        "first run",
        "Flink needs",
    ]
    about = (
        "The rules of *Real rules, real events* with the fewest comparisons, as one STATEMENT SET"
        " on Flink 2.3 (one JVM, parallelism 1, heap 6 GB, network memory 1 GB; a source that is"
        f" read and parsed once for all rules), over {COPIES} changed copies of the 3,895 events;"
        " ours over the same events and rules. Planning counts on neither side."
    )
    notes = [
        (
            f"{len(left_out):,} rules with {_comparisons(left_out[0])} and more comparisons are"
            f" left out, named in {LEFT_OUT.name}."
            if left_out
            else "No rule is left out."
        ),
        *(f"Did not run: {line}" for line in tried),
    ]
    return Section(
        "rules_real_flink",
        "Real rules on Flink",
        about,
        [Table("CPU an event", columns, [row])],
        notes,
    )


def _comparisons(rule: Rule) -> int:
    return 1 + rule.where.count(" AND ") + rule.where.count(" OR ")


def _ours(rules: Sequence[Rule]) -> float:
    """CPU µs an event."""
    with sigma.engine(Options(), wanted=rules) as engine:
        one_pass(engine, [0])
        events, cpu = one_pass(engine, list(range(1, COPIES + 1)))
        return cpu / events * 1e6


def _flink(rules: Sequence[Rule]) -> tuple[Flink | None, str]:
    """What Flink needs for the rules, or why it does not run them."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        lines = [line for n in range(1, COPIES + 1) for line in sigma.lines(n)]
        (folder / "log.json").write_bytes(b"\n".join(lines) + b"\n")
        script = folder / "rules.sql"
        script.write_text(_script(folder, rules), encoding="utf-8")
        command = [
            sys.executable,
            str(ORACLE / "flink_oracle.py"),
            "--time",
            "--rows",
            str(len(lines)),
            "--repeat",
            "2",
        ]
        command += ["--heap", "6g", "--network", "1g", str(script)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None, f"not done after {PATIENCE_S // 60} minutes"
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    timings = [e for e in events if e["kind"] == "timing"]
    if len(timings) < 2:
        errors = [
            str(e.get("message", e)) for e in events if e["kind"] == "error"
        ] or done.stderr.splitlines()[-1:]
        return None, (errors or ["no answer"])[0][:160]
    return Flink(rules, timings[-1]["cpu_us_per_row"], timings[0]["cpu_us_per_row"]), ""


def _script(folder: Path, rules: Sequence[Rule]) -> str:
    table = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
    columns = table[: table.rindex(" WITH (")]
    inserts = "\n".join(f"{r.sql};" for r in rules)
    return (
        f"{columns} WITH ('connector' = 'lines', 'path' = '{folder}/log.json', 'format' ="
        " 'json');\nCREATE TABLE alerts (rule_id STRING, level STRING, event_id BIGINT) WITH"
        f" ('connector' = 'blackhole');\nEXECUTE STATEMENT SET BEGIN\n{inserts}\nEND;\n"
    )
