"""Records what real Flink says of the expressions of this folder: of those that have no recorded
answer yet, or of all.

    python -m tests.expressions.record [--all] [TOPIC …]

`TOPIC.exprs` holds expressions (`tests.conformance.expressions` says in what form), `TOPIC.jsonl`
the answers, below a header with Flink's version and the hash of the expressions and their setup.
Needs Java and the sibling folder ../shared; FLINK_ORACLE_CACHE names a folder that can be
written."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from parser.script import split
from tests.conformance.expressions import Case, read_cases
from tests.support import load_oracle, oracle_missing

FLINK = "2.3.0"
FOLDER = Path(__file__).parent
# Expressions of one query; one that fails costs some more queries to find it.
CHUNK = 12

Line = dict[str, Any]


def topics() -> list[Path]:
    return sorted(FOLDER.glob("*.exprs"))


def header(source: Path) -> Line:
    """Flink's version and the hash of what it was asked, with the data that it read."""
    cases = read_cases(source)
    found = hashlib.sha256()
    for case in cases:
        found.update(f"{case.table}\0{case.setup.replace(str(FOLDER), '')}\0{case.expr}\0".encode())
    for data in sorted(FOLDER.glob("*.json")):
        if any(data.name in case.setup for case in cases):
            found.update(data.read_bytes())
    return {"flink": FLINK, "sha256": found.hexdigest(), "expressions": len(cases)}


def recorded(source: Path) -> list[Line]:
    """The recorded lines behind the header."""
    path = source.with_suffix(".jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()[1:]] if path.exists() else []


def is_stale(source: Path) -> bool:
    path = source.with_suffix(".jsonl")
    return not path.exists() or json.loads(path.read_text().split("\n", 1)[0]) != header(source)


def record(flink: Any, source: Path, again: bool) -> int:
    """Asks for what is not recorded (`again`: for everything) and writes the file; the number of
    questions."""
    named = {line["expr"]: line for line in _names_of(source)}
    held = {} if again else {(line["expr"], line.get("table")): line for line in recorded(source)}
    cases = read_cases(source)
    missing = [c for c in cases if (c.expr, named[c.expr].get("table")) not in held]
    for case, line in zip(missing, _ask(flink, missing), strict=True):
        held[case.expr, named[case.expr].get("table")] = {**line, **named[case.expr]}
    lines = [header(source), *(held[c.expr, named[c.expr].get("table")] for c in cases)]
    source.with_suffix(".jsonl").write_text(
        "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines)
    )
    return len(missing)


def _names_of(source: Path) -> Iterator[Line]:
    """Each expression with the names of its table and setup, where it has some."""
    held: Line = {}
    for line in source.read_text().splitlines():
        key, colon, rest = line.removeprefix("--").partition(":")
        if line.startswith("--") and colon and key.strip() in ("table", "setup"):
            held = {**held, key.strip(): rest.strip()}
        elif line.strip() and not line.startswith("--"):
            yield {"expr": line, **{k: v for k, v in held.items() if v}}


def _ask(flink: Any, cases: Sequence[Case]) -> Iterator[Line]:
    """One line a case, in order; neighbours of one table are asked together."""
    start = 0
    for end in range(1, len(cases) + 1):
        first = cases[start]
        if end == len(cases) or (cases[end].table, cases[end].setup) != (first.table, first.setup):
            yield from _ask_together(
                flink, [c.expr for c in cases[start:end]], first.table, first.setup
            )
            start = end


def _ask_together(flink: Any, expressions: list[str], table: str, setup: str) -> Iterator[Line]:
    """What Flink refuses to plan is found at once; the others run in chunks."""
    definitions = len(split(setup))
    plans = ";\n".join(f"EXPLAIN SELECT {e} AS c0 FROM {table}" for e in expressions)
    events = flink.run(f"{setup}\n{plans}", keep_going=True)
    refused = {e["stmt"] - definitions: e["message"] for e in events if e["kind"] == "error"}
    planned = [e for i, e in enumerate(expressions) if i not in refused]
    answers = flink.evaluate(planned, table=table, setup=setup, chunk=CHUNK)
    for i, expression in enumerate(expressions):
        yield _line((expression, None, None, refused[i]) if i in refused else next(answers))


def _line(answer: tuple[str, str | None, list[Any] | None, str | None]) -> Line:
    expression, kind, values, error = answer
    value = values[0] if values else None
    when = "fails" if error and "JobExecutionException" in error else "refused"
    cause = error and f"{when}: {error.split(' <- ')[-1][:200]}"
    line = {"expr": expression, "type": kind, "value": value, "error": cause}
    return {**line, "values": values} if values is not None and len(values) != 1 else line


def main(arguments: Iterable[str]) -> int:
    given = list(arguments)
    names = [a for a in given if a != "--all"]
    chosen = [
        s for s in topics() if s.stem in names or (not names and ("--all" in given or is_stale(s)))
    ]
    reason = oracle_missing()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    if not chosen:
        return 0
    with load_oracle().Oracle() as flink:
        for source in chosen:
            print(f"{source.stem}: {record(flink, source, '--all' in given)} asked", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
