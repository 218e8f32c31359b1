"""Where we differ from Flink, why, and what we say instead:

    python -m tests.expressions.differences

evaluates all recorded expressions and writes `ours.jsonl` (our answers where they differ) and
`differences.md`. The reasons are in `differences.json`: topic -> [pattern of expressions, reason].
An expression that differs without one is an error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.expressions import (
    Answer,
    Case,
    difference,
    open_evaluator,
    read_cases,
    shown,
)

FOLDER = Path(__file__).parent
OURS = FOLDER / "ours.jsonl"
PAGE = FOLDER / "differences.md"
MOST = 0.03

TITLE = """# Differences from Flink: expressions

Of {total:,} expressions that real Flink {version} was asked, {count} ({share:.1%}) have another answer here, on purpose.
This page is generated (`python -m tests.expressions.differences`).
"""


@dataclass(frozen=True)
class Difference:
    """One expression that we evaluate in another way, and why (None: nobody said)."""

    topic: str
    case: Case
    ours: Answer
    reason: str | None

    def line(self) -> dict[str, Any]:
        return {"topic": self.topic, **self.ours.line(self.case)}


def topics() -> list[Path]:
    """The recorded files of the topics that `differences.json` names."""
    return [FOLDER / f"{topic}.jsonl" for topic in sorted(reasons())]


def reasons() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    found = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))
    return {topic: [(re.compile(p), why) for p, why in pairs] for topic, pairs in found.items()}


def differences(path: Path) -> Iterator[Difference]:
    """Those of one topic."""
    known = reasons().get(path.stem, [])
    cases = read_cases(path)
    with open_evaluator() as evaluator:
        for case, answer in zip(cases, evaluator.answers(cases), strict=True):
            if difference(case, answer) is not None:
                yield Difference(
                    path.stem,
                    case,
                    answer,
                    next((why for p, why in known if p.search(case.expr)), None),
                )


def recorded() -> dict[tuple[str, str], dict[str, Any]]:
    """Our answers as they are kept, by topic and expression."""
    lines = (
        [json.loads(x) for x in OURS.read_text(encoding="utf-8").splitlines()]
        if OURS.exists()
        else []
    )
    return {(line["topic"], line["expr"]): line for line in lines}


def _text(answer: Answer | Case) -> str:
    return f"error: {answer.error}" if answer.error else shown(answer.type, answer.values)


def page(found: list[Difference]) -> str:
    total = sum(len(read_cases(p)) for p in topics())
    version = json.loads(topics()[0].read_text().split("\n", 1)[0])["flink"]
    parts = [TITLE.format(total=total, version=version, count=len(found), share=len(found) / total)]
    groups: dict[tuple[str, str], list[Difference]] = {}
    for item in found:
        groups.setdefault((item.topic, item.reason or "no reason"), []).append(item)
    for (topic, reason), items in groups.items():
        parts.append(f"## {topic}: {reason}\n")
        parts += [
            f"    {i.case.expr}\n    Flink {_text(i.case)[:150]}\n    here  {_text(i.ours)[:150]}\n"
            for i in items
        ]
    return "\n".join(parts)


def main() -> int:
    found = [d for path in topics() for d in differences(path)]
    for item in found:
        if item.reason is None:
            print(
                f"no reason: {item.topic}: {item.case.expr}: {difference(item.case, item.ours)}",
                file=sys.stderr,
            )
    OURS.write_text(
        "".join(json.dumps(d.line(), ensure_ascii=False) + "\n" for d in found), encoding="utf-8"
    )
    PAGE.write_text(page(found), encoding="utf-8")
    return 1 if any(d.reason is None for d in found) else 0


if __name__ == "__main__":
    sys.exit(main())
