"""Budget settings of a job: what it may cost, and what becomes of one that costs more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError
from sqlengine.access.principals import Budget, Exceeded
from sqlengine.system.sizes import size

BUDGET: Final = "job.budget."
CPU: Final = "job.budget.cpu-us-per-event"
STATE: Final = "job.budget.state"
EXCEEDED: Final = "job.budget.exceeded"


def budget_in(settings: Mapping[str, str]) -> Budget:
    """Returns the budget that a job's settings give. Raises OptionError for an impossible value."""
    return Budget(_cpu_us(settings), _state(settings), _exceeded(settings))


def _cpu_us(settings: Mapping[str, str]) -> float | None:
    text = settings.get(CPU)
    if text is None:
        return None
    try:
        us = float(text)
    except ValueError:
        us = math.nan
    if not 0 < us < math.inf:
        raise OptionError(f"'{CPU}' cannot be '{text}'", hint="it is a number, such as '25'")
    return us


def _state(settings: Mapping[str, str]) -> int | None:
    try:
        return size(settings[STATE]) if STATE in settings else None
    except ValueError as error:
        raise OptionError(f"'{STATE}' cannot be '{settings[STATE]}'", detail=str(error)) from None


def _exceeded(settings: Mapping[str, str]) -> Exceeded:
    text = settings.get(EXCEEDED, Exceeded.WARN.value).strip().lower()
    if text not in list(Exceeded):
        hint = f"it is one of {', '.join(Exceeded)}"
        raise OptionError(f"'{EXCEEDED}' cannot be '{text}'", hint=hint)
    return Exceeded(text)
