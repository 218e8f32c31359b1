"""Every golden expression gives what real Flink gives, or what its line says that we give instead,
and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlengine.batch import Batch
from tests.udf.golden import (
    FOLDER,
    expected,
    ours,
    plain,
    read_goldens,
    read_table,
    table_ddl,
    wanted,
)
from udf.aggregates.accumulators import empty_accumulator
from udf.aggregates.registry import bind_aggregate

FILES = sorted(FOLDER.glob("*.jsonl"))


@pytest.fixture(scope="module")
def table() -> Batch:
    return read_table()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_expressions(path: Path, table: Batch) -> None:
    differences = []
    for golden in read_goldens(path):
        found = ours(golden["expr"], table)
        message = found.pop("message", "")
        if found != wanted(golden):
            differences.append(
                f"{golden['expr']}\n  wanted {wanted(golden)}\n  found  {found} {message}"
            )
    assert not differences, "\n".join(differences)


def test_differences_have_reasons() -> None:
    assert all(g.get("why") for path in FILES for g in read_goldens(path) if "ours" in g)


CALLS = json.loads((FOLDER / "aggregates.json").read_text())["calls"]


@pytest.mark.parametrize(
    "golden", CALLS, ids=lambda g: g["call"] + (" grouped" if g["group"] else "")
)
def test_aggregates(golden: dict[str, Any], table: Batch) -> None:
    name, argument = golden["call"].removesuffix(")").split("(")
    types = [] if argument == "*" else [table.schema.type(argument)]
    aggregate = bind_aggregate(name, types, grouped=golden["group"] is not None)
    assert str(aggregate.result_type) == golden["type"]

    keys = [
        "" if golden["group"] is None else str(k).lower() for k in table.column("b0").to_pylist()
    ]
    slot_of = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    acc = empty_accumulator(aggregate.accumulators, 8)
    slots = np.array([slot_of[k] for k in keys], np.int64)
    values = None if argument == "*" else table.column(argument)
    aggregate.update(acc, slots, values, np.ones(table.num_rows, np.bool_))

    result = aggregate.result(acc, np.array(list(slot_of.values()), np.int64))
    assert isinstance(result, pa.Array)
    assert result.type == aggregate.result_type.arrow
    found = dict(zip(slot_of, plain(result, aggregate.result_type), strict=True))
    assert found == {key: expected(v, golden["type"]) for key, v in golden["values"].items()}


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_flink_still_says_so(path: Path, flink: Any, update: bool) -> None:
    """Asks the real Flink again; with --update its answers are written, and our own differences are
    kept."""
    goldens = list(read_goldens(path))
    answers = flink.evaluate([g["expr"] for g in goldens], table="t", setup=table_ddl())
    lines = []
    for golden, (expression, kind, values, error) in zip(goldens, answers, strict=True):
        said: dict[str, Any] = (
            {"error": _class_of(error)} if error else {"type": kind, "values": values}
        )
        kept = {k: golden[k] for k in ("ours", "why") if k in golden}
        lines.append({"expr": expression} | said | kept)
    if update:
        header = path.read_text().splitlines()[0]
        path.write_text(
            "\n".join([header, *(json.dumps(line, ensure_ascii=False) for line in lines)]) + "\n"
        )
    assert lines == goldens


def _class_of(error: str) -> str:
    return "fails" if "JobExecutionException" in error else "refused"


def test_table_has_all_rows(table: Batch) -> None:
    assert table.num_rows == 5
    assert all(isinstance(c, pa.Array) for c in table.columns)
