"""The limits of a user's module on the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionLimits:
    """The resources that a module may use.

    `row_s`: seconds for one row; `call_s`: for one call of a vectorised function; `batch_s`: for
    all rows of a batch; `memory`: bytes beyond those of an idle worker; `failures`: crashes, hangs
    and lacks of memory within `failures_s` seconds after which a function is switched off."""

    row_s: float = 1.0
    call_s: float = 5.0
    batch_s: float = 30.0
    memory: int = 512 << 20
    failures: int = 10
    failures_s: float = 600.0
