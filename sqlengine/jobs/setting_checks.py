"""Checks what has a meaning for jobs when it is set, and not only when an INSERT reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from parser.errors import UnsupportedError
from planner.graph.takeover import policy_of
from planner.settings import RUNTIME_MODE, is_batch
from sqlengine.executors.memory_limits import LIMIT, memory_limit
from sqlengine.executors.steps.guard import STEP_TIMEOUT
from sqlengine.executors.steps.limits import step_timeout
from sqlengine.jobs.budget_settings import BUDGET, budget_in
from sqlengine.jobs.isolation_settings import ISOLATION, limits_in
from sqlengine.jobs.restart_strategy import RESTART, strategy_in
from sqlengine.jobs.targets import LATENCY, TARGET, latency_in, target_of

_Settings = Mapping[str, str]


def check_setting(settings: Mapping[str, str], key: str) -> None:
    """Raises the SqlError of a value that `key` cannot have, given the other settings."""
    policy_of(settings)
    if key in _BY_KEY:
        _BY_KEY[key](settings)
    for prefix, check in _BY_PREFIX.items():
        if key.startswith(prefix):
            check(settings)


def _check_mode(settings: _Settings) -> None:
    if is_batch(settings):
        raise UnsupportedError(
            "batch mode is not supported for jobs: their input has no end",
            hint="run the script with 'sql run'",
        )


_BY_KEY: Final[Mapping[str, Callable[[_Settings], object]]] = {
    LIMIT: memory_limit,
    STEP_TIMEOUT: step_timeout,
    TARGET: lambda settings: target_of(settings[TARGET]),
    LATENCY: latency_in,
    RUNTIME_MODE: _check_mode,
}
_BY_PREFIX: Final[Mapping[str, Callable[[_Settings], object]]] = {
    ISOLATION: limits_in,
    BUDGET: budget_in,
    RESTART: strategy_in,
}
