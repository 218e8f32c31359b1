"""All recorded expressions: Flink's answer, or ours where we differ and say why; folded constants
equal columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.expressions import difference, open_evaluator, read_cases
from tests.expressions.differences import MOST, differences, recorded, topics
from tests.expressions.record import header

TOPICS = topics()


@pytest.mark.parametrize("path", TOPICS, ids=lambda p: p.stem)
def test_flink_says_so_too(path: Path) -> None:
    kept = {expr: line for (topic, expr), line in recorded().items() if topic == path.stem}
    wrong = []
    for item in differences(path):
        held = kept.pop(item.case.expr, None)
        same = held is not None and _outcome(held) == _outcome(item.line())
        if item.reason is None or not same:
            wrong.append(f"{item.case.expr}: {difference(item.case, item.ours)}")
    assert not wrong, "\n".join(wrong)
    assert not kept, (
        f"these do not differ any more, run tests.expressions.differences: {list(kept)}"
    )


def _outcome(line: dict[str, object]) -> object:
    """Of an error only that there is one: our words may get better."""
    return "error" if line["error"] else json.dumps([line["type"], line["value"]])


@pytest.mark.parametrize("path", TOPICS, ids=lambda p: p.stem)
def test_recorded_answers_are_of_these_expressions(path: Path) -> None:
    assert json.loads(path.read_text().split("\n", 1)[0]) == header(path.with_suffix(".exprs"))


def test_few_differ() -> None:
    assert len(recorded()) <= MOST * sum(len(read_cases(p)) for p in TOPICS)


@pytest.mark.parametrize("topic", ["cast_constants", "operators", "conditional"])
def test_folded_constants_are_what_columns_give(topic: str) -> None:
    path = Path(__file__).parent / f"{topic}.jsonl"
    cases = read_cases(path)
    off = {"optimizer.constant-folding": "false", "optimizer.simplify": "false"}
    with open_evaluator() as folded, open_evaluator(off) as plain:
        pairs = zip(cases, folded.answers(cases), plain.answers(cases), strict=True)
        different = [
            c.expr
            for c, a, b in pairs
            if (a.type, a.values, bool(a.error)) != (b.type, b.values, bool(b.error))
        ]
    assert not different
