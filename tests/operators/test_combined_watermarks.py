"""The watermark of an operator with several inputs, beside Flink's own class."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from parser.types import Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, empty
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.ports import PortTimes
from tests.support import load_oracle, oracle_missing

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "combined_watermarks.jsonl"
LIVES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


def tick(watermark: int | None, *, idle: bool) -> Batch:
    at = MIN_WATERMARK if watermark is None else watermark
    return replace(empty(Schema(())), watermark=at, idle=idle)


@pytest.mark.parametrize("life", range(len(LIVES)))
def test_inputs_are_combined_as_in_flink(life: int) -> None:
    inputs, steps = LIVES[life]
    times, since = PortTimes(TaskContext({}), inputs), MIN_WATERMARK
    for port, watermark, idle, combined, all_idle in steps:
        found = times.advance(port, tick(watermark, idle=idle))
        expected = MIN_WATERMARK if combined is None else combined
        assert (found.since, found.watermark, found.idle) == (since, expected, all_idle)
        since = expected


def test_an_input_that_has_ended_says_nothing_for_the_silent_ones() -> None:
    times = PortTimes(TaskContext({}), 2)
    ended = tick(MAX_WATERMARK, idle=False)
    assert times.advance(0, ended).watermark == MIN_WATERMARK
    assert times.advance(1, tick(5, idle=False)).watermark == 5
    silent = times.advance(1, tick(5, idle=True))
    assert (silent.watermark, silent.idle) == (5, True)
    assert times.advance(0, replace(ended, idle=True)).watermark == 5
    assert times.advance(1, tick(9, idle=False)).watermark == 9
    assert times.advance(1, ended).watermark == MAX_WATERMARK


@pytest.mark.oracle
def test_flink_still_combines_them_so() -> None:
    if reason := oracle_missing():
        pytest.skip(reason)
    path = ":".join(str(jar) for jar in sorted(load_oracle().jars().glob("*.jar")))
    command = ["java", "-cp", path, str(FOLDER / "CombinedWatermarks.java")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert said.stdout == RECORDED.read_text()
