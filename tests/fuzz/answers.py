"""What a real Flink has said to questions, kept in a file: a run that is repeated asks only what is
new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.data import Table
from tests.sql.golden import Answer


class Answers:
    """By question; the last answer to each counts. Without a file they are forgotten."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.held: dict[str, Answer] = dict(map(json.loads, lines))

    def add(self, question: str, answer: Answer) -> None:
        self.held[question] = answer
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([question, answer], ensure_ascii=False) + "\n")


def question(first: str, tables: Sequence[Table], sql: str) -> str:
    """Everything that an answer depends on, in short."""
    return hashlib.sha256(repr((first, tables, sql)).encode()).hexdigest()
