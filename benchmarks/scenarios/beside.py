"""Work that goes on beside a scenario."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Beside(ABC):
    """Runs in a thread of its own within `with`, until `_enough` is set at its end."""

    def __init__(self) -> None:
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Does the work."""
