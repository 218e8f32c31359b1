"""A plugin of pytest: all engines and scripts run their graphs in tasks, without Spark itself.

    pytest -p tests.spark.in_tasks tests/service tests/engine tests/functions

What tasks refuse by name fails then."""

from __future__ import annotations

from inspect import unwrap

import pytest

from sqlengine import config, machine
from sqlengine.session import environment, spark
from tests.spark.staged import Staged


@pytest.fixture(autouse=True, scope="session")
def in_tasks() -> None:
    """Changes what an engine or script takes that is told nothing else."""
    sound = config.Config.__post_init__

    def post_init(self: config.Config) -> None:
        sound(self)
        object.__setattr__(self, "target", "spark")

    patch = pytest.MonkeyPatch()
    patch.setattr(config.Config, "__post_init__", post_init)
    for module in (machine, spark):
        patch.setattr(module, "OwnSpark", lambda *_: Staged(2))
    opened = unwrap(environment.open_runner)
    data, _, *others = opened.__defaults__
    patch.setattr(opened, "__defaults__", (data, "spark", *others))
