"""Tables that take long to open, and then cannot be."""

from __future__ import annotations

import threading
import time

import pytest

from parser.errors import ServiceError
from sqlengine.connectors.boundary.openings import Opening, Openings, StillOpening
from sqlengine.system.lanes import ThreadLanes
from tests.support import PATIENCE_S


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


def test_what_went_wrong_the_last_time_is_told_while_a_table_opens_again() -> None:
    """A host that is away takes as long again with each attempt, and has been known to be away."""
    gate = threading.Event()
    outcomes = iter((ServiceError("h is away", detail="refused"), None))

    def work() -> object:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return gate.wait(PATIENCE_S)

    def slow() -> StillOpening:
        return StillOpening("not open yet", detail="no answer so far")

    opening = Opening("t", "h", work, lambda _: None, slow, slow)
    openings = Openings(ThreadLanes())
    try:
        with pytest.raises(ServiceError, match="h is away"):
            openings.open(opening)
        with pytest.raises(StillOpening) as told:
            openings.open(opening)
        assert told.value.detail == "no answer so far; the last time: h is away (refused)"
        gate.set()
        assert openings.open(opening, patient=True)
    finally:
        openings.stop()
