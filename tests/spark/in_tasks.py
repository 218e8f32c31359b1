"""A plugin of pytest: all engines run their graphs in tasks, without Spark itself.

    pytest -p tests.spark.in_tasks tests/service tests/engine

What tasks refuse by name fails then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqlengine import config, machine
from tests.spark.staged import Staged


@pytest.fixture(autouse=True, scope="session")
def in_tasks() -> None:
    """Changes what an engine takes that is told nothing else."""
    sound = config.Config.__post_init__

    def post_init(self: config.Config) -> None:
        sound(self)
        object.__setattr__(self, "target", "spark")

    pytest.MonkeyPatch().setattr(config.Config, "__post_init__", post_init)
    staged = replace(machine.THIS, spark=lambda config: Staged(2))
    object.__setattr__(machine.THIS, "spark", staged.spark)
