"""What is left of an engine that was closed, in a program that goes on."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.support import eventually


def test_a_closed_engine_leaves_memory(tmp_path: Path) -> None:
    left = _opened_and_closed(tmp_path)
    eventually(lambda: _is_gone(left))


def _is_gone(left: weakref.ref[Engine]) -> bool:
    """Looks again: a timer that was at work when its engine was closed ends half a second later."""
    gc.collect()
    return left() is None


def _opened_and_closed(folder: Path) -> weakref.ref[Engine]:
    engine = Engine(Config(data=folder))
    engine.start()
    engine.submit("t", "CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole')")
    engine.close()
    return weakref.ref(engine)


def test_an_engine_leaves_the_collector_of_a_program_alone(tmp_path: Path) -> None:
    frozen = gc.get_freeze_count()
    left = _opened_and_closed(tmp_path)
    assert gc.get_freeze_count() == frozen
    eventually(lambda: _is_gone(left))
