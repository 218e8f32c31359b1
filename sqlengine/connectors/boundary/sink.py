"""Stands for a sink that a connector has opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from parser.errors import ExecutionError, TryAgain
from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink, Unanswered
from sqlengine.connectors.boundary import answers
from sqlengine.connectors.boundary.calls import Calls
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.system.lanes import Call

# Seconds that a graph waits for a sink, once for each call; then it goes on with others.
_PATIENCE_S: Final = 1.0


class WalledSink(Sink):
    """Asks the sink of a connector. What it raises becomes an SqlError that names the table, and an
    answer that cannot be as well.

    A sink in a lane that takes long is `Busy`: rows wait here until it is back, and the same commit
    is called again. After its deadline it fails for good. Whether an unanswered commit has happened
    is asked of the table when it is opened again, as after a crash."""

    def __init__(self, sink: Sink, calls: Calls) -> None:
        self._sink = sink
        self._calls = calls
        self.health = sink.health
        # Rows that came while the sink was busy.
        self._waiting: deque[Batch] = deque()
        # A call whose result nobody has taken, and the commit among them with its epoch.
        self._untaken: Call[None] | None = None
        self._committing: tuple[int, Call[int]] | None = None
        self._asking: Call[int | None] | None = None

    def last_epoch(self) -> int | None:
        return self._calls.need("last_epoch", self._last_epoch)

    def _last_epoch(self) -> int | None:
        return answers.whole_or_none(self._sink.last_epoch())

    def ask(self) -> None:
        """Begins to find out the last epoch, where that may take long and no other call runs."""
        if self._calls.beside and self._calls.sound and self._asking is None:
            self._asking = self._calls.begin("last_epoch", self._last_epoch)

    def answer(self, wait_s: float) -> int | None:
        """Returns what `ask` finds out. `Unanswered` after so many seconds: ask again."""
        if not self._calls.beside:
            return self.last_epoch()
        self._calls.require_sound()
        self.ask()
        if self._asking is None:
            raise self._busy("another call")
        self._asking.wait(min(wait_s, self._calls.opened.timeout_s))
        self._require_done(self._asking)
        asked, self._asking = self._asking, None
        return asked.result()

    def write(self, batch: Batch) -> None:
        if not self._calls.beside:
            self._calls.need("write", lambda: self._sink.write(batch))
            return
        self._calls.require_sound()
        free = not self._waiting and self._untaken is None and self._committing is None
        begun = self._calls.begin("write", partial(self._write, batch)) if free else None
        if begun is None:
            self._waiting.append(batch)
        elif self._in_time(begun):
            begun.result()
        else:
            self._untaken = begun

    def _write(self, batch: Batch) -> None:
        """Hands rows over (in the lane)."""
        try:
            self._sink.write(batch)
        except TryAgain as error:  # only a commit is called again
            raise ExecutionError(error.message, detail=error.detail, hint=error.hint) from error

    def commit(self, epoch: int) -> int:
        if not self._calls.beside:
            return self._calls.need("commit", lambda: answers.whole(self._sink.commit(epoch)))
        self._take_untaken()
        if self._committing is not None and self._committing[0] != epoch:
            self._take_commit()
        if self._committing is None:
            begun = self._calls.begin("commit", partial(self._commit, epoch))
            if begun is None:
                raise self._busy("another call")
            self._committing = epoch, begun
            self._in_time(begun)
        return self._take_commit()

    def _commit(self, epoch: int) -> int:
        """Hands over the rows that have waited, and commits (in the lane)."""
        while self._waiting:
            self._write(self._waiting.popleft())
        self._calls.touch()
        return answers.whole(self._sink.commit(epoch))

    def _take_commit(self) -> int:
        assert self._committing is not None
        _, committing = self._committing
        self._require_done(committing)
        self._committing = None
        return committing.result()

    def refused(self) -> Sequence[RefusedRows]:
        """See `Sink`. Nothing while a call runs: what that tells is taken after it."""
        if self._calls.busy:
            return ()
        return self._calls.in_lane("refused", lambda: answers.refused(self._sink.refused()))

    def roll(self, *, end: bool = False) -> None:
        if not self._calls.beside:
            self._calls.need("roll", lambda: self._sink.roll(end=end))
            return
        if not end and (self._committing is not None or not self.roll_is_due()):
            return
        self._take_untaken()
        begun = self._calls.begin("roll", lambda: self._sink.roll(end=end))
        if begun is None:
            raise self._busy("another call")
        self._untaken = begun
        self._in_time(begun)
        self._take_untaken()

    def roll_is_due(self) -> bool:
        return self._untaken is not None or self._calls.in_lane(
            "roll_is_due", lambda: answers.truth(self._sink.roll_is_due())
        )

    def publish_overwrite(self) -> None:
        self._calls.need("publish_overwrite", self._sink.publish_overwrite)

    # ---- waiting ---------------------------------------------------------------------------------

    def _in_time(self, call: Call[object]) -> bool:
        return call.wait(min(_PATIENCE_S, self._calls.opened.timeout_s))

    def _take_untaken(self) -> None:
        """Takes the answer of a call that was no commit; `Busy` while it is missing."""
        self._calls.require_sound()
        untaken = self._untaken
        if untaken is not None:
            self._require_done(untaken)
            self._untaken = None
            untaken.result()

    def _require_done(self, call: Call[object]) -> None:
        """Raises `Busy` while a call has not come back, and the failure once it is overdue."""
        if not call.done and not self._calls.ended_wait(call):
            self._calls.require_in_time()
            raise self._busy(f"its call for {call.silent_s:.0f} s")

    def _busy(self, what: str) -> Unanswered:
        opened = self._calls.opened
        return Unanswered(
            f"table '{opened.table}' has not answered yet",
            detail=f"connector '{opened.connector}' works on {what}",
            hint="its rows are kept, and written when it answers",
        )

    def close(self) -> None:
        self._calls.close(self._sink.close)
