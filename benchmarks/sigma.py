"""An engine with the 1,414 rules for process creations, and events that cost what one pass over the
log costs."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from benchmarks.copies import STRIDE, Copier, Event, to_lines
from rules.condition import Condition
from rules.options import Options
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import ALERTS, Rule, records, rules, table_of
from tests.rules.sigma import read_rules

FOLDER = Path(__file__).parents[2] / "shared" / "corpora" / "sigma"
TABLE = "process_creation"


@lru_cache(maxsize=1)
def log() -> list[bytes]:
    """The events of one pass."""
    return records(FOLDER, TABLE)


@lru_cache(maxsize=1)
def all_rules() -> list[Rule]:
    return rules(FOLDER, TABLE)


@lru_cache(maxsize=1)
def conditions() -> list[Condition]:
    return list(read_rules(TABLE).values())


@lru_cache(maxsize=1)
def _copier() -> tuple[Copier, dict[int, list[Event]]]:
    return Copier([json.loads(line) for line in log()], conditions()), {}


def copy(number: int) -> list[Event]:
    """The events of a copy; copy 0 is the log."""
    copier, made = _copier()
    if number not in made:
        made[number] = copier.copy(number)
    return made[number]


def lines(number: int) -> list[bytes]:
    """The records of a copy."""
    return log() if number == 0 else to_lines(copy(number))


@lru_cache(maxsize=1)
def expected() -> Counter[tuple[str, int]]:
    """(rule id, event id) of the alerts of one pass."""
    text = (FOLDER / f"{TABLE}.expected.tsv").read_text(encoding="utf-8")
    pairs = (line.split("\t") for line in text.splitlines())
    return Counter((rule, int(event)) for rule, event in pairs)


def expected_of(copies: list[int]) -> Counter[tuple[str, int]]:
    """The alerts of some copies."""
    return Counter(
        {(rule, event + n * STRIDE): c for n in copies for (rule, event), c in expected().items()}
    )


@contextmanager
def engine(
    options: Options | None = None, batch: int = 4096, wanted: Sequence[Rule] | None = None
) -> Iterator[Engine]:
    """A running engine over an empty topic, with all rules or those `wanted`, that reads `batch`
    events at a time at most. Rules that come later begin where the others are."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        made = Engine(Config(data=Path(folder), rules=options or Options(), rows_per_read=batch))
        try:
            made.broker.create_topic(TABLE)
            table = table_of(TABLE, log(), all_rules()).replace("earliest-offset", "latest-offset")
            jobs = {"alerts": JobText("alerts", ALERTS), "table": JobText("table", table)}
            jobs |= {
                r.job: JobText(r.job, r.sql) for r in (all_rules() if wanted is None else wanted)
            }
            refused = [
                o.error
                for o in made.change(Request(Origin.SDK, jobs)).values()
                if o.error is not None
            ]
            if refused:
                raise RuntimeError(f"{len(refused)} rules were refused: {refused[0]}")
            made.start()
            yield made
        finally:
            made.close()
