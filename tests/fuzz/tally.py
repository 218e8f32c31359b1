"""What was compared: how often each operation and each pair of them, and what the results looked
like."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from tests.fuzz.compare import Verdict
from tests.fuzz.grammar import OPERATORS, PAIRS, Query


class Tally:
    """Counts over queries, and over runs where it has a file. An operation counts where Flink has
    run the query."""

    def __init__(self, path: Path | None = None) -> None:
        held = json.loads(path.read_text()) if path and path.exists() else {}
        self.path = path
        self.kinds = Counter[str](held.get("kinds", {}))
        self.operators = Counter[str](held.get("operators", {}))
        self.pairs = Counter[str](held.get("pairs", {}))
        self.above = Counter[str](held.get("above", {}))
        self.reasons = Counter[str](held.get("reasons", {}))

    def add(self, query: Query, verdict: Verdict) -> None:
        self.kinds.update(["queries", verdict.kind])
        if isinstance(verdict.flink, str) or isinstance(verdict.ours, str):
            self.reasons.update([_reason(verdict)])
            return
        if verdict.why:
            self.reasons.update([f"known: {verdict.why}"])
        self.kinds["compared"] += 1
        self.kinds["with NULL in a key"] += query.null_key
        if len(verdict.flink) > 1:
            self.kinds["with rows"] += 1
            self.kinds["with NULL in the result"] += any(
                "null" in str(row) for row in verdict.flink[1:]
            )
        self.operators.update(set(query.operators))
        self.pairs.update(_text(p) for p in query.pairs)
        self.above.update(_text(p) for p in query.above)

    def keep(self) -> None:
        if self.path:
            names = ("kinds", "operators", "pairs", "above", "reasons")
            self.path.write_text(json.dumps({name: getattr(self, name) for name in names}))

    def lines(self) -> list[str]:
        """The histogram: operations, the rarest pairs (both in one query), pairs on top of each
        other, shares."""
        found = [
            f"{self.operators[n]:6} {n}"
            for n in sorted(OPERATORS, key=lambda n: -self.operators[n])
        ]
        rare = sorted((self.pairs[_text(p)], _text(p)) for p in PAIRS)
        found += [
            "",
            f"rarest of {len(PAIRS)} pairs in one query:",
            *(f"{n:6} {p}" for n, p in rare[:20]),
        ]
        found += [
            "",
            (
                f"{sum(n >= 20 for n, _ in rare)} pairs 20 times and more; {len(self.above)} on top"
                " of each other"
            ),
        ]
        total = self.kinds["compared"] or 1
        shares = ("with rows", "with NULL in a key", "with NULL in the result")
        found += ["", *(f"{self.kinds[s] / total:6.0%} {s}" for s in shares)]
        found += ["", *(f"{n:6} {k}" for k, n in self.kinds.most_common() if k not in shares)]
        return [
            *found,
            "",
            "not compared, or known:",
            *(f"{n:6} {reason}" for reason, n in self.reasons.most_common(20)),
        ]


def _reason(verdict: Verdict) -> str:
    """Why a query was not compared: what Flink says, without names and numbers."""
    said = str(verdict.flink if isinstance(verdict.flink, str) else verdict.ours).removeprefix(
        "error: "
    )
    words = re.sub(r"(At|From) line [^.]*?: |'[^']*'|\$\w+|\d+", "…", said.split(" <- ")[0])
    return f"{verdict.kind}: {words[:100]}"


def _text(pair: tuple[str, str]) -> str:
    return " + ".join(pair)
