"""Table test programs of Flink, run as Flink's own harness runs them: rows into sources,
statements, rows out of sinks.

A program passes when its rows come with Flink's kinds, as a multiset, when they are fed one at a
time (with two or more inputs real Flink varies: then their materialised result); when the
materialised result is the same at the default batch size; and when the rows are again the same
after a restore from a savepoint, where it has rows for that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conformance.program_settings import settings_of
from tests.conformance.program_values import Printed, parsed

# The programs that pass, by class and id: none of them may fail again.
PASSING = Path(__file__).with_name("programs_passing.txt")

SOURCE, SINK = "SourceTestStep", "SinkTestStep"
RUNS = ("SqlTestStep", "StatementSetTestStep")
FAILS = "FailingSqlTestStep"
# Why a program may not apply.
JAVA, PLAN, VECTORS, MODELS = "Java-only API", "plan test without data", "vector search", "model"

Row = tuple[str, list[object]]


@dataclass(frozen=True)
class TableStep:
    """A table of a program. `expected`: lists of typed rows or of printed ones, before and after a
    restore; `final`: the rows that are there in the end, where the program tells them; `metadata`:
    keys in the order of the values."""

    name: str
    definition: str
    before: tuple[Row, ...] = ()
    after: tuple[Row, ...] = ()
    expected: tuple[Row | str, ...] = ()
    final: tuple[Row, ...] | None = None
    metadata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """One program. `statements` run; each of `failing` (SQL, part of the message) is to fail behind
    them."""

    id: str
    group: str
    sources: tuple[TableStep, ...]
    sinks: tuple[TableStep, ...]
    settings: Mapping[str, str]
    statements: tuple[str, ...]
    failing: tuple[tuple[str, str], ...]
    not_applicable: str | None
    restores: bool
    batch: int | None = None

    @property
    def name(self) -> str:
        return f"{self.group}/{self.id}"


@dataclass
class Outcome:
    """What became of one program: `faults` in words (none: passed), and what came out by way and
    sink."""

    program: Program
    faults: list[str] = field(default_factory=list)
    rows: dict[tuple[str, str], list[tuple[str, list[object]]]] = field(default_factory=dict)

    @property
    def line(self) -> str:
        if self.program.not_applicable:
            return f"N/A {self.program.id}: {self.program.not_applicable}"
        if not self.faults:
            return f"PASS {self.program.id}"
        return f"FAIL {self.program.id}: {'; '.join(self.faults)}"

    @property
    def passed(self) -> bool:
        return not self.faults and not self.program.not_applicable

    def write(self, folder: Path) -> None:
        """One file for each sink, JSON lines with op and row; further ones for the other ways."""
        folder.mkdir(parents=True, exist_ok=True)
        first = next(iter(self.rows), ("", ""))[0]
        for (way, sink), rows in self.rows.items():
            lines = (
                json.dumps({"op": kind, "row": row}, ensure_ascii=False) + "\n"
                for kind, row in rows
            )
            end = "" if way == first else f".{way.replace(' ', '-')}"
            name = f"{self.program.group}.{self.program.id.replace('#', '.')}.{sink}{end}.jsonl"
            (folder / name).write_text("".join(lines), encoding="utf-8")


def programs(path: Path, only: str | None = None) -> list[Program]:
    """The programs of a file, or those whose class or id is or begins with `only`. Equal ids are
    told apart by #2, #3 … Those with rows for a restore run the statements of the first: Flink
    restores the plan that it keeps under the id."""
    found: list[Program] = []
    seen: dict[str, list[Program]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            program = read_program(json.loads(line))
            alike = seen.setdefault(program.name, [])
            if alike:
                statements = alike[0].statements if program.restores else program.statements
                program = replace(
                    program, id=f"{program.id}#{len(alike) + 1}", statements=statements
                )
            alike.append(program)
            found.append(program)
    return [
        p
        for p in found
        if only is None or p.group.startswith(only) or p.id.startswith(only) or p.name == only
    ]


def read_program(raw: Mapping[str, object]) -> Program:
    steps = [s for s in _list(raw["steps"]) if isinstance(s, dict)]
    sources = tuple(_table(s, SOURCE) for s in steps if s["step"] == SOURCE)
    sinks = tuple(_table(s, SINK) for s in steps if s["step"] == SINK)
    texts = (
        t for s in steps if s["step"] in RUNS for t in _list(s.get("statements") or [s["sql"]])
    )
    statements = tuple(_statement(str(t), sinks) for t in texts)
    failing = tuple(
        (str(s["sql"]), str(s["expectedErrorMessage"])) for s in steps if s["step"] == FAILS
    )
    settings, batch = settings_of(str(raw["class"]), steps)
    return Program(
        str(raw["id"]),
        str(raw["class"]),
        sources,
        sinks,
        settings,
        statements,
        failing,
        _not_applicable(steps, statements, failing),
        any(s.get("dataAfterRestore") or _after(s) for s in steps),
        batch,
    )


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _statement(sql: str, sinks: Sequence[TableStep]) -> str:
    """A statement as it runs: a query alone goes to the program's only sink."""
    text = sql.strip().rstrip(";").rstrip()
    query = re.match(r"\(*\s*(SELECT|VALUES|WITH)\b", text, re.IGNORECASE)
    return f"INSERT INTO `{sinks[0].name}` {text}" if query and len(sinks) == 1 else text


def _not_applicable(
    steps: Sequence[Mapping[str, object]],
    statements: Sequence[str],
    failing: Sequence[tuple[str, str]],
) -> str | None:
    text = "\n".join(statements) + "\n".join(sql for sql, _ in failing)
    runs = any(not re.match(r"CREATE\b", s, re.IGNORECASE) for s in statements) or bool(failing)
    if not runs or "$00(" in text or any(s["step"] == "FunctionTestStep" for s in steps):
        return (
            JAVA
            if any(s["step"] in ("TableApiTestStep", "FunctionTestStep") for s in steps)
            else PLAN
        )
    if re.search(r"\bVECTOR_SEARCH\s*\(", text, re.IGNORECASE):
        return VECTORS
    models = r"\b(ML_PREDICT|ML_EVALUATE)\s*\(|\bCREATE\s+(TEMPORARY\s+)?MODEL\b"
    return MODELS if re.search(models, text, re.IGNORECASE) else None


def _after(step: Mapping[str, object]) -> object:
    return step.get("expectedAfterRestore") or step.get("expectedAfterRestoreStrings")


def _table(step: Mapping[str, object], role: str) -> TableStep:
    name = str(step["name"])
    partitions = ", ".join(f"`{k}`" for k in _list(step.get("partitionKeys") or []))
    partitioned = f" PARTITIONED BY ({partitions})" if partitions else ""
    options = ", ".join(f"'{k}' = '{v}'" for k, v in _options(step, role).items())
    components = ", ".join(map(str, _list(step["schemaComponents"])))
    final = step.get("expectedMaterializedRows")
    return TableStep(
        name,
        f"CREATE TABLE `{name}` ({components}){partitioned} WITH ({options})",
        tuple(_rows(step.get("dataBeforeRestore"))),
        tuple(_rows(step.get("dataAfterRestore"))),
        tuple(
            row
            for key in ("expectedBeforeRestore", "expectedAfterRestore")
            for row in _expected(step, key)
        ),
        None if final is None else tuple(_rows(final)),
        tuple(_metadata(step)),
    )


def _metadata(step: Mapping[str, object]) -> Iterator[str]:
    for name, value in map(_list, _list(step.get("options") or [])):
        if str(name) in ("readable-metadata", "writable-metadata"):
            yield from (key.partition(":")[0] for key in re.split(r",(?=\w+:)", str(value)))


def _expected(step: Mapping[str, object], key: str) -> Iterator[Row | str]:
    yield from _rows(step.get(key))
    yield from map(str, _list(step.get(f"{key}Strings") or []))


def _rows(value: object) -> Iterator[Row]:
    for row in _list(value or []):
        kind, values = _list(row)
        yield str(kind), _list(values)


def _options(step: Mapping[str, object], role: str) -> dict[str, str]:
    """The options of Flink's test connector that have a meaning here, as those of a table in
    memory."""
    given = {str(k): str(v) for k, v in map(_list, _list(step.get("options") or []))}
    options = {"connector": "memory", "name": str(step["name"])}
    mode = given.get("changelog-mode" if role == SOURCE else "sink-changelog-mode-enforced")
    if mode is None and role == SINK and given.get("sink-insert-only") == "true":
        mode = "I"
    if mode is not None:
        options["changelog-mode"] = mode
    if role == SOURCE and given.get("source.produces-delete-by-key") == "true":
        options["delete-by-key"] = "true"
    if role == SOURCE and given.get("enable-watermark-push-down") == "true":
        options["watermark-push-down"] = "true"
    return options


def expected_rows(rows: Iterable[Row | str], typed: Iterable[Printed]) -> list[Printed]:
    """Expected rows as they are printed; `typed` are those that are no texts, in order."""
    ready = iter(typed)
    return [parsed(row) if isinstance(row, str) else next(ready) for row in rows]


def reason(fault: str) -> str:
    """A fault without what is its program's own, so that equal ones can be counted."""
    head = fault.split(": ", 1)[0] if " missing [" in fault else fault
    return re.sub(r"\d+", "n", re.sub(r"'[^']*'", "'…'", head.split("\n", 1)[0]))[:150]
