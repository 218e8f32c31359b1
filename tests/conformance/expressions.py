"""Expressions one by one, as `oracle/flink_oracle.py --exprs` prints what real Flink says of them.

A file of expectations is lines of JSON, each `{"expr", "type", "value", "error"}`. Further keys, if
they are there: `table` (what stands behind FROM instead of one row of the constant 0 as x), `setup`
(statements to run before, or the name of a file with some that lies beside), `values` (one per row,
where the table has not just one). A first line without `expr` is a header. A file of plain
expressions, one a line, has no expectations: comment lines

    -- setup: types.sql
    -- table: t

hold for all lines below them. `${DATA}` in a setup is the folder of the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parser.errors import SqlError
from parser.grammar.datatypes import parse_type
from parser.types import DataType, Root, Schema
from sqlengine.batch import Batch
from sqlengine.formats.results import rows_of
from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session

TOGETHER = 40  # expressions in one query
INTERNAL = "internal error: "
ONE_ROW = "(VALUES (0)) AS t(x)"


@dataclass(frozen=True)
class Case:
    """An expression over a table, and (`known`) what Flink says of it: the type and a value for
    each row, or an error."""

    expr: str
    table: str = ONE_ROW
    setup: str = ""
    type: str | None = None
    values: tuple[Any, ...] = ()
    error: str | None = None
    known: bool = False


@dataclass(frozen=True)
class Answer:
    """What the engine says: a type and a value for each row, or an error."""

    type: str | None = None
    values: tuple[Any, ...] = ()
    error: str | None = None

    def line(self, case: Case) -> dict[str, Any]:
        """In the oracle's form."""
        value = self.values[0] if self.values else None
        found: dict[str, Any] = {
            "expr": case.expr,
            "type": self.type,
            "value": value,
            "error": self.error,
        }
        if len(case.values) > 1 or len(self.values) > 1:
            found["values"] = list(self.values)
        return found


def read_cases(path: Path) -> list[Case]:
    """The cases of a file of expectations, or of one of plain expressions."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".exprs":
        return list(_plain(lines, path.parent))
    found = [json.loads(line) for line in lines if line.strip()]
    return [_expected(line, path.parent) for line in found if "expr" in line]


def _plain(lines: Iterable[str], folder: Path) -> Iterator[Case]:
    held = {"table": ONE_ROW, "setup": ""}
    for line in lines:
        if line.startswith("--"):
            key, colon, rest = line.removeprefix("--").partition(":")
            if colon and key.strip() in held:
                held[key.strip()] = rest.strip()
        elif line.strip():
            yield Case(line, held["table"] or ONE_ROW, setup_text(held["setup"], folder))


def _expected(line: dict[str, Any], folder: Path) -> Case:
    values = tuple(line["values"]) if line.get("values") is not None else (line.get("value"),)
    setup = setup_text(line.get("setup") or "", folder)
    error = line.get("error")
    return Case(
        line["expr"],
        line.get("table") or ONE_ROW,
        setup,
        line.get("type"),
        () if error else values,
        error,
        known=True,
    )


def setup_text(setup: str, folder: Path) -> str:
    """The statements of a setup, which is their text or the name of a file."""
    path = folder / setup
    text = (
        path.read_text(encoding="utf-8")
        if setup and "\n" not in setup and path.is_file()
        else setup
    )
    return text.replace("${DATA}", str(folder))


@dataclass
class _Output:
    """What one query says."""

    types: list[str] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)
    failed: str | None = None

    def schema(self, stmt: int, schema: Schema) -> None:
        self.types = [str(c.type) for c in schema]

    def rows(self, stmt: int, batch: Batch) -> None:
        self.values += [row for _, row in rows_of(batch)]

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.failed = f"{error}: {error.detail}" if error.detail else str(error)


@dataclass
class Evaluator:
    """Evaluates expressions by queries, as `sql run` would; the definitions of a setup are made
    once."""

    runner: Runner
    settings: dict[str, str] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)

    def answer(self, case: Case) -> Answer:
        return next(self.answers([case]))

    def answers(self, cases: Sequence[Case]) -> Iterator[Answer]:
        """One answer a case, in order. Neighbours go into one query; one that fails is halved until
        the fault is alone."""
        start = 0
        while start < len(cases):
            first, end = cases[start], start + 1
            while end < len(cases) and end - start < TOGETHER and _alike(first, cases[end]):
                end += 1
            yield from self._together(cases[start:end])
            start = end

    def _together(self, cases: Sequence[Case]) -> Iterator[Answer]:
        out = self._query(cases)
        if out.failed is None:
            for i, kind in enumerate(out.types):
                yield Answer(kind, tuple(row[i] for row in out.values))
        elif len(cases) == 1:
            yield Answer(error=out.failed)
        else:
            half = len(cases) // 2
            yield from self._together(cases[:half])
            yield from self._together(cases[half:])

    def _query(self, cases: Sequence[Case]) -> _Output:
        session, out = self._session(cases[0].setup), _Output()
        session.output = out
        columns = ", ".join(f"{c.expr} AS c{i}" for i, c in enumerate(cases))
        try:
            session.run(f"SELECT {columns} FROM {cases[0].table}")
        except Exception as error:  # noqa: BLE001  a fault of ours is one more difference, and not the end of the run
            out.failed = f"{INTERNAL}{type(error).__name__}: {error}"
        return out

    def _session(self, setup: str) -> Session:
        if setup not in self._sessions:
            out = _Output()
            session = Session(self.runner, out, settings=dict(self.settings))
            session.run(setup)
            if out.failed is not None:
                raise ValueError(f"the setup fails: {out.failed}")
            self._sessions[setup] = session
        return self._sessions[setup]


def _alike(first: Case, other: Case) -> bool:
    """Whether both may be asked in one query: over one table, and none of them is thought to
    fail."""
    return (first.table, first.setup, None, None) == (
        other.table,
        other.setup,
        first.error,
        other.error,
    )


@contextmanager
def open_evaluator(settings: dict[str, str] | None = None) -> Iterator[Evaluator]:
    """`settings` are as of SET, such as {'optimizer.constant-folding': 'false'}."""
    with tempfile.TemporaryDirectory() as folder, open_runner(Path(folder)) as runner:
        yield Evaluator(runner, settings or {})


def difference(case: Case, answer: Answer) -> str | None:
    """Why the answer is not the expected one; None if it is."""
    if answer.error is not None and answer.error.startswith(INTERNAL):
        return answer.error
    if (case.error is None) != (answer.error is None):
        wanted = f"an error ({case.error[:160]})" if case.error else shown(case.type, case.values)
        found = f"an error ({answer.error})" if answer.error else shown(answer.type, answer.values)
        return f"expected {wanted}, found {found}"
    if case.error is not None:
        return None
    if case.type != answer.type:
        return f"expected type {case.type}, found {answer.type}"
    kind = _parsed(case.type)
    if [canonical(v, kind) for v in case.values] != [canonical(v, kind) for v in answer.values]:
        return f"expected {shown(case.type, case.values)}, found {shown(None, answer.values)}"
    return None


def shown(kind: str | None, values: Iterable[Any]) -> str:
    text = ", ".join(json.dumps(v, ensure_ascii=False) for v in values)
    return f"{text} of type {kind}" if kind else text


def _parsed(kind: str | None) -> DataType | None:
    try:
        return parse_type((kind or "").replace("*ROWTIME*", "").replace("*PROCTIME*", ""))
    except SqlError:
        return None


def canonical(value: Any, kind: DataType | None) -> str:
    """A value as text that is equal for equal values: FLOAT by its 32 bits (Java prints more digits
    than the shortest text needs), pairs of a MAP in any order; 1, 1.0 and TRUE are three."""
    if kind is None or value is None:
        return json.dumps(value, ensure_ascii=False)
    children = kind.children
    match kind.root:
        case Root.FLOAT if isinstance(value, int | float) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                return repr(np.float32(value))
        case Root.DOUBLE if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(float(value))
        case Root.MAP | Root.MULTISET if isinstance(value, list):
            second = children[1] if kind.root is Root.MAP else None
            return str(sorted((canonical(k, children[0]), canonical(v, second)) for k, v in value))
        case Root.ARRAY if isinstance(value, list):
            return str([canonical(v, children[0]) for v in value])
        case Root.ROW if isinstance(value, list) and len(value) == len(children):
            return str([canonical(v, c) for v, c in zip(value, children, strict=True)])
    return json.dumps(value, ensure_ascii=False)


@dataclass
class Report:
    """One line a case, our own lines in the oracle's form, and counts."""

    lines: list[str] = field(default_factory=list)
    ours: list[dict[str, Any]] = field(default_factory=list)
    passed: int = 0
    failed: int = 0
    unknown: int = 0


def run_expressions(path: Path) -> Report:
    """Evaluates a file's expressions. Of plain ones without expectations the report shows only what
    they are."""
    report = Report()
    with open_evaluator() as evaluator:
        cases = read_cases(path)
        for case, answer in zip(cases, evaluator.answers(cases), strict=True):
            report.ours.append(answer.line(case))
            _count(report, case, answer)
    return report


def _count(report: Report, case: Case, answer: Answer) -> None:
    if not case.known:
        report.unknown += 1
        report.lines.append(f"{case.expr}: {answer.error or shown(answer.type, answer.values)}")
        return
    why = difference(case, answer)
    if why is None:
        report.passed += 1
        report.lines.append(f"PASS {case.expr}")
    else:
        report.failed += 1
        report.lines.append(f"FAIL {case.expr}: {why}")
