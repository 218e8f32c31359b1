"""Counters of the metrics never fall while a process runs, whatever becomes of jobs and graphs; what
jobs did in a graph that is gone is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from parser.errors import TryAgain
from sqlengine.engine import Engine
from sqlengine.graphs.totals import Rising
from sqlengine.metrics import render
from tests.engine.by_hand import EVENTS, WINDOW, append, open_engine, step

Counters = dict[tuple[str, str], float]
DIVIDED = "INSERT INTO outs SELECT 'b', {} / (id % 11) FROM events WHERE id > 100"


def counters(engine: Engine, rising: Rising | None = None) -> Counters:
    """The counters without labels, and those of tables."""
    families = text_string_to_metric_families(render(engine, rising).decode())
    return {
        (sample.name, sample.labels.get("table", "")): sample.value
        for family in families
        for sample in family.samples
        if sample.name.endswith("_total") and not sample.labels.keys() - {"table"}
    }


class Life:
    """A server with two jobs, of which some records are in error."""

    def __init__(self, folder: Path) -> None:
        self.engine = open_engine(folder)
        self.engine.submit("tables", EVENTS)
        self.fed = 0
        self.submit("a", WINDOW.format(name="a"))
        self.submit("b", DIVIDED.format(10))

    def submit(self, name: str, sql: str) -> None:
        self.engine.submit(name, sql)
        self.feed()

    def feed(self) -> None:
        append(self.engine, *(1000 * self.fed + 300 * i for i in range(10)))
        self.fed += 3
        step(self.engine)

    def changes(self) -> Iterator[str]:
        """Makes one change after the other."""
        engine = self.engine
        changes: dict[str, Callable[[], object]] = {
            "a is isolated": lambda: engine.isolate("a"),
            "a is merged": lambda: engine.merge("a"),
            "b is replaced": lambda: engine.submit("b", DIVIDED.format(11)),
            "b is isolated": lambda: engine.isolate("b"),
            "b is stopped": lambda: engine.stop_job("b"),
            "b is started": lambda: engine.start_job("b"),
            "b is removed": lambda: engine.remove("b"),
            "the graph is opened again": lambda: engine.graphs.reopen(engine.graphs.of("a"), {}),
            "a is removed": lambda: engine.remove("a"),
        }
        for what, change in changes.items():
            self.feed()
            change()
            yield what


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    yield life
    life.engine.close()


def test_no_counter_falls_whatever_becomes_of_jobs(life: Life) -> None:
    rising = Rising()
    before = counters(life.engine, rising)
    for what in life.changes():
        now = counters(life.engine, rising)
        assert {k: (v, now.get(k)) for k, v in before.items() if now.get(k, -1) < v} == {}, what
        before = now


def test_what_was_between_two_scrapes_is_there(life: Life) -> None:
    """The reader comes once, at the end: whatever graphs there were, their rows are counted."""
    list(life.changes())
    found = counters(life.engine)
    of_jobs = life.engine.broker.end_offset("out", 0)
    assert found["sqlengine_sink_records_total", "outs"] == of_jobs
    letters = life.engine.broker.end_offset("_dead_letters", 0)
    assert found["sqlengine_dead_letters_total", ""] == letters > 0


HOOK = """
CREATE TEMPORARY TABLE hook (id BIGINT) WITH ('connector' = 'webhook', 'url' = 'http://127.0.0.1:1/{job}', 'format' = 'json');
INSERT INTO hook SELECT id FROM events WHERE id >= 0{more};
"""


def of_hooks(engine: Engine, rising: Rising) -> list[float]:
    families = text_string_to_metric_families(render(engine, rising).decode())
    samples = [sample for family in families for sample in family.samples]
    return [s.value for s in samples if s.name == "sqlengine_connector_errors_total"]


def test_tables_of_one_name_have_one_counter(life: Life) -> None:
    """It counts what each has told, also one that has gone, and stays where nothing comes."""
    rising = Rising()
    for number, job in enumerate(("first", "second")):
        life.submit(job, HOOK.format(job=job, more=f" AND id <> {number}"))
    errors = [
        sink.health.errors
        for graph in life.engine.graphs.by_name.values()
        for sink in graph.runner.outputs.running.values()
        if sink.health is not None
    ]
    assert of_hooks(life.engine, rising) == of_hooks(life.engine, rising) == [sum(errors)]
    assert len(errors) == 2
    assert min(errors) > 0
    with pytest.raises(TryAgain, match=r"'sql stop first', then 'sql remove first'"):
        life.engine.remove("first")
    life.engine.stop_job("first")
    life.engine.remove("first")
    assert of_hooks(life.engine, rising) == [sum(errors)]
