"""Rows in error: each becomes a dead letter, or fails its job if the job asks for that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.epochs import Replay
from sqlengine.executors.failures import RowsFailed, RowsGivenUp
from sqlengine.executors.progress import Progress
from sqlengine.operators.base import FATAL_ERROR_PORT, Output


class RowErrors:
    """The rows in error of one graph, in its thread.

    `fatal`: failures of jobs, to be raised when the epoch is complete for the others. `sink` takes
    the dead letters; None where nobody keeps them."""

    def __init__(self, sink: Sink | None, fails_on_error: Callable[[str], bool]) -> None:
        self.sink = sink
        self.fatal: list[RowsFailed] = []
        self._fails_on_error = fails_on_error
        self._late: list[Batch] = []

    def handle(self, errors: Output, progress: Progress) -> bool:
        """Sorts what left operators by their error ports; returns True if dead letters were
        written to the sink."""
        letters = self._sorted(errors, progress)
        if self.sink is None:
            return False
        for batch in letters:
            self.sink.write(batch)
        return bool(letters)

    def handle_refused(self, errors: Output, progress: Progress) -> None:
        """Sorts rows that a system has refused at a commit. Their dead letters are no part of an
        epoch, since that of a commit that was late has left already: they are written at once.

        TryAgain where there is no space: they stay, and are written with the next ones."""
        self._late += self._sorted(errors, progress)
        while self._late:
            if isinstance(self.sink, DeadLetterSink):
                self.sink.write_at_once(self._late[0])
            elif self.sink is not None:
                self.sink.write(self._late[0])
            self._late.pop(0)

    def _sorted(self, errors: Output, progress: Progress) -> list[Batch]:
        """Keeps failures of jobs; returns the dead letters."""
        found = []
        for port, letters in errors:
            if port == FATAL_ERROR_PORT:
                self.fatal += [RowsGivenUp(part) for part in _by_owner(letters)]
                continue
            owners = letters.columns[0].to_pylist()
            # By row: operators are shared, so that one batch may hold letters of several jobs.
            fatal = np.array([self._fails_on_error(owner) for owner in owners], np.bool_)
            if fatal.any():
                failed = letters.take(np.flatnonzero(fatal))
                self.fatal += [RowsFailed(part) for part in _by_owner(failed)]
                letters = letters.take(np.flatnonzero(~fatal))
                owners = letters.columns[0].to_pylist()
            progress.dead_letters += letters.num_rows
            progress.letters.update(owners)
            if letters.num_rows:
                found.append(letters)
        return found

    def mark_replayed(self, replay: Replay, now_ms: int) -> bool:
        """Records that these dead letters have been replayed, as part of the epoch; returns True
        if the sink keeps such records."""
        if not isinstance(self.sink, DeadLetterSink):
            return False
        self.sink.mark_replayed(replay, now_ms)
        return True


def _by_owner(letters: Batch) -> list[Batch]:
    """The letters of each job: every one of them fails for itself."""
    rows: dict[str, list[int]] = {}
    for row, owner in enumerate(letters.columns[0].to_pylist()):
        rows.setdefault(owner, []).append(row)
    return [letters.take(np.array(of_job)) for of_job in rows.values()]
