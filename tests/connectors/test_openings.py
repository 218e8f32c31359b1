"""Tables that take long to open, and then cannot be."""

from __future__ import annotations

import time

import pytest

from parser.errors import ServiceError
from sqlengine.connectors.boundary.openings import Opening, Openings, StillOpening
from sqlengine.system.lanes import ThreadLanes


def test_a_failure_that_took_long_is_told_again() -> None:
    """Who looks for the job at fault asks a second time, and must not find it still opening."""
    begun = []

    def work() -> object:
        begun.append(1)
        time.sleep(1.2)
        raise ServiceError("nobody answers")

    opening = Opening(
        "t",
        "host",
        work,
        lambda _: None,
        lambda: StillOpening("slow"),
        lambda: StillOpening("late"),
    )
    openings = Openings(ThreadLanes())
    with pytest.raises(StillOpening):
        openings.open(opening)
    time.sleep(0.5)
    for _ in range(2):
        with pytest.raises(ServiceError, match="nobody answers"):
            openings.open(opening)
    assert len(begun) == 1
    openings.stop()
