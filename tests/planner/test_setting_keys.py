"""Every key of SET that the code reads is known, and no other is taken silently."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from parser.errors import OptionError, PlanError, UnsupportedError
from planner.optimizer import PREFIX
from planner.rule_settings import RULE_KEYS
from planner.setting_keys import EFFECTIVE, check_reset, check_setting

ROOT = Path(__file__).resolve().parents[2]
KEYS = re.compile(
    r"restart-strategy"
    r"|(table|execution|job|memory|pipeline|restart-strategy|state)\.[a-z-]+(\.[a-z-]+)*"
)
# Options of tables, and of a job's own, that look like keys of settings; and what a session of the
# gateway reads, which means nothing in the text of a job.
NO_SETTINGS = {"table.include", "pipeline.name", "table.dml-sync"}


def constants() -> set[str]:
    """The texts in the code, but for those of the module that lists the keys."""
    files = [f for part in ("planner", "sqlengine") for f in (ROOT / part).rglob("*.py")]
    return {
        node.value
        for file in files
        if file.name != "setting_keys.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def read_keys() -> set[str]:
    keys = {t for t in constants() if KEYS.fullmatch(t)} - NO_SETTINGS
    stems = {
        k for k in keys if any(e.startswith(f"{k}.") for e in EFFECTIVE) and k not in EFFECTIVE
    }
    return (keys - stems) | {e for e in EFFECTIVE for s in stems if e.startswith(f"{s}.")}


def test_the_keys_that_are_read_are_those_that_have_an_effect() -> None:
    assert {k for k in EFFECTIVE - RULE_KEYS if not k.startswith(PREFIX)} == read_keys()


def test_the_documentation_names_every_key() -> None:
    page = (ROOT / "docs/sql/settings.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z.-]+)`", page))
    assert {k for k in EFFECTIVE if not k.startswith(PREFIX)} - named == set()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("table.exec.state.tll", "table.exec.state.ttl"),
        ("table.exec.mini-batch.enable", "table.exec.mini-batch.enabled"),
        ("table.exec.minibatch.enabled", "table.exec.mini-batch.enabled"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("execution.runtime.mode", "execution.runtime-mode"),
        ("pipeline.auto-watermark-intervall", "pipeline.auto-watermark-interval"),
        ("job.on-eror", "job.on-error"),
        ("job.late-row", "job.late-rows"),
        ("memory.limits", "memory.limit"),
        ("state.savepoint.dir", "state.savepoints.dir"),
        ("TABLE.LOCAL-TIME-ZONE", "table.local-time-zone"),
    ],
)
def test_a_misspelt_key_is_refused(key: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_setting(key, "1", {})
    assert caught.value.message == f"unknown setting '{key}'"
    assert caught.value.hint == f"did you mean '{meant}'?"
    with pytest.raises(OptionError, match=f"unknown setting '{key}'"):
        check_reset(key, {})


def test_a_key_near_to_none_is_refused_with_the_way_out() -> None:
    with pytest.raises(OptionError) as caught:
        check_setting("my.parameter", "1", {})
    assert caught.value.detail == "docs/sql/settings.md lists all"
    assert caught.value.hint == (
        "in a script made for Flink, SET 'job.unknown-options' = 'ignore' before it"
    )


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.interval",
        "parallelism.default",
        "pipeline.name",
        "sql-client.execution.result-mode",
        "state.backend.type",
        "table.exec.mini-batch.size",
        "table.exec.resource.default-parallelism",
        "taskmanager.memory.process.size",
    ],
)
def test_a_key_of_flink_without_effect_is_noted(key: str) -> None:
    note = check_setting(key, "1", {})
    assert note == f"'{key}' has no effect here: it says how Flink runs a plan"
    check_reset(key, {})


@pytest.mark.parametrize("key", ["table.exec.state.ttl", "optimizer.prune-partitions"])
def test_a_key_with_an_effect_is_not_noted(key: str) -> None:
    assert check_setting(key, "true", {}) is None


def test_what_changes_results_in_flink_is_not_taken_silently() -> None:
    assert check_setting("table.sql-dialect", "DEFAULT", {}) is None
    with pytest.raises(UnsupportedError, match=r"'table\.sql-dialect' = 'hive' is not"):
        check_setting("table.sql-dialect", "hive", {})


def test_scripts_made_for_flink_may_say_so() -> None:
    ignoring = {"job.unknown-options": "ignore"}
    assert (
        check_setting("my.parameter", "1", ignoring) == "unknown setting 'my.parameter' is ignored"
    )
    check_reset("my.parameter", ignoring)
    with pytest.raises(PlanError, match=r"invalid value 'perhaps' of 'job\.unknown"):
        check_setting("job.unknown-options", "perhaps", {})


def test_an_optimizer_pass_that_is_misspelt() -> None:
    with pytest.raises(PlanError) as caught:
        check_setting("optimizer.prune-partition", "false", {})
    assert caught.value.hint == "there is 'optimizer.prune-partitions'"
