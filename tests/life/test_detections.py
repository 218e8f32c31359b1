"""The rules in examples/detections: their cases pass, nothing about them is doubtful, and each of
their conditions is needed by a case."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from parser.rule_head import rule_head
from sqlengine.broker.auto_create import AutoCreate
from tests.cli.conftest import Sql
from tests.service.harness import running
from tests.support import ROOT

FOLDER = ROOT / "examples" / "detections"
RULES = sorted(path for path in FOLDER.rglob("*.sql") if path.name != "_tables.sql")


def test_their_cases_pass(sql: Sql) -> None:
    done = sql("test", FOLDER)
    assert (done.exit_code, done.stdout) == (0, ""), done.stdout + done.stderr
    assert done.stderr.startswith("60 rules, ")
    assert done.stderr.endswith(" cases, all passed\n")


def test_nothing_is_doubtful(sql: Sql) -> None:
    done = sql("lint", FOLDER)
    assert (done.exit_code, done.stdout) == (0, ""), done.stdout + done.stderr
    assert done.stderr == "60 rules, 0 doubtful\n"


@pytest.mark.slow
def test_a_server_takes_them(tmp_path: Path) -> None:
    with running(tmp_path / "data", jobs=FOLDER, auto_create=AutoCreate(sources=True)) as (_, user):
        states = user.states()
    assert Counter(states.values()) == {"running": 60, "defined": 6}


@pytest.mark.slow
def test_each_condition_is_needed(sql: Sql) -> None:
    done = sql("test", FOLDER, "--coverage", "--mutate")
    assert done.exit_code == 0, done.stdout + done.stderr
    coverage, mutation = done.stdout.splitlines()
    assert_all(coverage.removeprefix("coverage: "))
    assert_all(mutation.removeprefix("mutation: "))


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_heads_are_whole(path: Path) -> None:
    head = rule_head(path.read_text(encoding="utf-8"))
    assert head is not None
    named = {"title", "severity", "owner", "description", "tags", "references", "false_positives"}
    assert head.keys() >= named | {"attributes"}
    assert path.with_name(f"{path.stem}.test.yaml").is_file()


def assert_all(line: str) -> None:
    """Of `17 of 17 conditions …`: both numbers are equal."""
    found, _, number, *_ = line.split()
    assert found == number
