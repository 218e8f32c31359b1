"""The name of the job that runs a shadow: no text can be called so, as '@' is in no job name."""

from __future__ import annotations

from typing import Final

_SHADOW: Final = "@shadow"


def shadow_of(rule: str) -> str:
    """Returns the name of the job that runs the shadow of a rule.

    >>> shadow_of("night.brute_force")
    'night.brute_force@shadow'
    """
    return rule + _SHADOW


def is_shadow(job: str) -> bool:
    """True for the name of a job that runs a shadow."""
    return job.endswith(_SHADOW)


def rule_of(job: str) -> str:
    """Returns the rule that a job runs a version of: itself, unless it runs a shadow."""
    return job.removesuffix(_SHADOW)
