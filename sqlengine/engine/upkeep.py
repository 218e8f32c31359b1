"""Housekeeping of a server, once a minute beside the stream: retention and compaction of topics,
and the index of dead letters."""

from __future__ import annotations

import logging
import time
from contextlib import closing

from sqlengine.broker.errors import BrokerError
from sqlengine.engine import Engine
from sqlengine.system.threads import Background

EVERY_S = 60.0
log = logging.getLogger("sqlengine")


class Upkeep(Background):
    """Runs the housekeeping in a thread of its own, so that neither a graph nor a request waits.

    The first turn comes after EVERY_S: what was not read before the start is read first.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__("upkeep")
        self._engine = engine

    def turn(self) -> None:
        """Does all that is due. What fails is tried again with the next turn."""
        try:
            self._engine.broker.apply_retention()
            self._engine.dead_letters.refresh()
            self._compact()
        except (BrokerError, OSError) as error:
            log.warning("old records could not be dropped, it will be tried again: %s", error)

    def _compact(self) -> None:
        """Compacts topics in at most a quarter of the time: the stream needs the processor, too."""
        began = time.monotonic()
        with closing(self._engine.broker.compaction_steps()) as steps:
            for _ in steps:
                if self._stopping.wait(3 * (time.monotonic() - began)):
                    return
                began = time.monotonic()

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self.turn()
