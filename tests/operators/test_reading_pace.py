"""How many rows an epoch reads, by how long the epochs before took."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.executors.steps.pace import ReadingPace

MOST = 4096


def read(pace: ReadingPace, seconds: Callable[[int], float], epochs: int) -> list[float]:
    """Reads a source that has rows without end; returns the seconds of each epoch."""
    taken = []
    for _ in range(epochs):
        rows = pace.rows("hog", MOST)
        taken.append(seconds(rows))
        pace.note([("hog", rows), ("other", 3)], taken[-1], MOST)
    return taken


def test_epochs_become_short_where_each_row_costs_much() -> None:
    pace = ReadingPace()
    taken = read(pace, lambda rows: rows * 0.005, 10)
    assert taken[0] > 20
    assert all(seconds <= 0.5 for seconds in taken[1:])
    assert pace.rows("other", MOST) == MOST


def test_an_epoch_reads_as_much_as_before_when_it_is_short_again() -> None:
    pace = ReadingPace()
    read(pace, lambda rows: rows * 0.005, 3)
    read(pace, lambda rows: rows * 0.000_01, 10)
    assert pace.rows("hog", MOST) == MOST


def test_epochs_stay_large_where_each_epoch_costs_much_whatever_it_reads() -> None:
    pace = ReadingPace()
    read(pace, lambda rows: 2.0, 10)
    assert pace.rows("hog", MOST) == MOST


def test_epochs_become_shorter_again_as_state_grows() -> None:
    pace, state = ReadingPace(), [0]

    def join(rows: int) -> float:
        state[0] += rows
        return rows * state[0] * 5e-7

    assert max(read(pace, join, 200)) < 30
    assert read(pace, join, 1)[0] <= 0.75


def test_a_source_that_is_closed_is_forgotten() -> None:
    pace = ReadingPace()
    read(pace, lambda rows: rows * 0.005, 3)
    assert pace.rows("hog", MOST) < MOST
    pace.forget("hog")
    assert pace.rows("hog", MOST) == MOST
