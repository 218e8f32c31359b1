"""The corpus of SigmaHQ's rules: their YAML gives the conditions that three evaluations agree on, and
the alerts."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from parser.types import BIGINT, STRING, Schema
from sqlengine.sigma.conditions import where
from sqlengine.sigma.parsing import read
from sqlengine.sigma.reading import Reading
from sqlengine.sigma.rules import Rule, fields_of
from sqlengine.sigma.tables import EventTable
from tests.conformance.sigma_yaml import run_sigma_yaml
from tests.rules import sigma

pytestmark = pytest.mark.skipif(
    not sigma.FOLDER.is_dir(), reason="../shared/corpora/sigma is not there"
)
YAML = sigma.FOLDER / "rules-yaml.jsonl.gz"


def without_parentheses(text: str) -> str:
    return re.sub(r"[()]", "", text)


def test_conditions_are_those_of_the_corpus() -> None:
    expected: dict[tuple[str, str], str] = {}
    for table in sigma.TABLES:
        lines = (sigma.FOLDER / f"{table}.rules.jsonl").read_text(encoding="utf-8").splitlines()
        expected |= {(table, r["id"]): r["where"] for r in map(json.loads, lines)}
    different = []
    with gzip.open(YAML, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            (rule,) = read(row["yaml"])
            assert isinstance(rule, Rule)
            columns = dict.fromkeys(fields_of(rule.condition), STRING) | {"EventID": BIGINT}
            events = EventTable(row["table"], Schema.of(**columns))
            ours = where(rule.condition, Reading(events))
            if without_parentheses(ours) != without_parentheses(expected[row["table"], row["id"]]):
                different.append(row["id"])
    assert different == []


@pytest.mark.slow
def test_alerts_are_those_expected() -> None:
    report = run_sigma_yaml(YAML, sigma.FOLDER)
    assert [line for line in report.lines if not line.startswith("PASS")] == []
    assert report.passed == 1831
