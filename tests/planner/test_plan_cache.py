"""Plans read from the cache are those that planning gives, and what they were made over is looked
at first."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser import parse
from parser.errors import SqlError
from parser.types import BIGINT, BOOLEAN, STRING, decimal
from planner.analysis.deliver import deliver
from planner.binder import bind
from planner.catalog import Catalog
from planner.codec import Decoder, Encoder
from planner.graph.merge import merge
from planner.passes.simplify import simplify
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.plan_cache import PlanCache, code_files
from sqlengine.jobs.planning import JobText, plan_job, with_objects
from udf.registry import lookup

TABLES = """
CREATE TABLE src (a BIGINT, b STRING, d DECIMAL(10, 2), o TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  ts AS TO_TIMESTAMP_LTZ(a, 3),
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'topic', 'topic' = 'src', 'format' = 'json');
CREATE TABLE dst (a BIGINT, b STRING) WITH ('connector' = 'blackhole');
CREATE VIEW v AS SELECT a, UPPER(b) AS b FROM src WHERE d > 1.50
"""
WINDOW = """INSERT INTO dst SELECT COUNT(*), MAX(b) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end"""
SCRIPT = """CREATE TEMPORARY TABLE t (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
SET 'table.local-time-zone' = 'Asia/Tokyo';
INSERT INTO dst SELECT a, CAST(NOW() AS STRING) FROM t;
INSERT INTO dst SELECT a, b FROM v"""
RULES = """CREATE TABLE src (a BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
CREATE TABLE dst (a BIGINT) WITH ('connector' = 'blackhole')"""
RULE = "INSERT INTO dst SELECT a FROM src WHERE a > {}"
TEXTS = (
    (
        "INSERT INTO dst SELECT a, b FROM src WHERE b LIKE '%x%' AND (a > 3 OR d IN (1.0, 2.5)) AND"
        " REGEXP(b, '^a+$')"
    ),
    "INSERT INTO dst SELECT a, b FROM v WHERE b <> ''",
    "INSERT INTO dst SELECT a, b FROM src UNION ALL SELECT a, UUID() FROM src",
    "INSERT INTO dst VALUES (1, 'ä'), (CAST(NULL AS BIGINT), '𝔘')",
    WINDOW,
    SCRIPT,
)


def _catalog(tables: str = TABLES) -> Catalog:
    return with_objects(Catalog(), plan_job(JobText("tables", tables), Catalog(), {}))


@pytest.mark.parametrize("text", TEXTS)
def test_a_plan_read_is_the_plan_made(text: str, tmp_path: Path) -> None:
    catalog, job = _catalog(), JobText("j", text, "j.sql")
    made = plan_job(job, catalog, {})
    for hits in (0, 1):
        with PlanCache(tmp_path / "plans") as cache:
            found = cache.plan(job, _catalog(), {})  # other objects, of equal definitions
        assert cache.counters["hits"] == hits
        assert found == made
        assert [s.digest for s in found.sinks] == [s.digest for s in made.sinks]
        assert repr(found.sinks) == repr(made.sinks)  # types and names too


def test_what_a_plan_was_made_over_counts_and_nothing_else(tmp_path: Path) -> None:
    job = JobText("j", TEXTS[1])
    wider = TABLES.replace("d > 1.50", "d > 1.51")
    unrelated = TABLES + "; CREATE TABLE more (x INT) WITH ('connector' = 'blackhole')"
    renamed = replace(job, name="k")
    with PlanCache(tmp_path / "plans") as cache:
        for text, catalog, settings, hits in (
            (job, _catalog(), {}, 0),
            (job, _catalog(), {}, 1),
            (job, _catalog(unrelated), {}, 2),
            (job, _catalog(wider), {}, 2),
            (renamed, _catalog(wider), {}, 2),
            (job, _catalog(wider), {}, 3),
            (job, _catalog(wider), {"optimizer.constant-folding": "false"}, 3),
        ):
            assert cache.plan(text, catalog, settings) == plan_job(text, catalog, settings)
            assert cache.counters["hits"] == hits


def test_errors_are_not_kept(tmp_path: Path) -> None:
    job = JobText("j", "INSERT INTO dst SELECT a, c FROM src")
    with PlanCache(tmp_path / "plans") as cache:
        for _ in range(2):
            with pytest.raises(SqlError, match="'c'"):
                cache.plan(job, _catalog(), {})
        with pytest.raises(SqlError):
            cache.plan(JobText("j", TEXTS[0]), Catalog(), {})


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_cache_is_made_anew(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plans"
    path.write_bytes(content)
    for hits in (0, 1):
        with PlanCache(path) as cache:
            assert cache.plan(JobText("j", TEXTS[0]), _catalog(), {}).sinks
        assert cache.counters["hits"] == hits


_values = (
    st.none()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
)
_leaves: st.SearchStrategy[Scalar] = st.builds(
    Literal, _values, st.sampled_from([BIGINT, STRING, decimal(38, 18)])
) | st.builds(ColumnRef, st.text(), st.just(BIGINT))
_scalars = st.recursive(
    _leaves,
    lambda inner: st.builds(Call, st.text(), st.lists(inner).map(tuple), st.just(BOOLEAN)),
    max_leaves=20,
)


@given(_scalars)
def test_any_expression_is_read_as_it_was_written(expression: Scalar) -> None:
    read = Decoder(Catalog()).decode(Encoder(Catalog()).encode((expression, expression)))
    assert read == (expression, expression)
    assert repr(read) == repr((expression, expression))


def test_a_second_start_reads_its_plans(tmp_path: Path) -> None:
    texts = {f"j{i}": JobText(f"j{i}", RULE.format(i)) for i in range(22)} | {
        "tables": JobText("tables", RULES)
    }
    seen = []
    for config in (Config(tmp_path), Config(tmp_path), Config(tmp_path, plan_cache=False)):
        engine = Engine(config)
        if not engine.jobs():
            engine.change(Request(Origin.SDK, texts))  # in a child process
        assert [j.name for j in engine.jobs() if j.state is JobState.RUNNING] == sorted(
            texts.keys() - {"tables"}
        )
        seen.append(dict(engine.planned()))
        engine.close()
    assert seen == [{"misses": 23}, {"hits": 22, "misses": 1}, {}]


def test_other_code_plans_again() -> None:
    files = code_files()
    for part in (parse, bind, deliver, simplify, merge, lookup):
        assert Path(inspect.getfile(part)) in files
