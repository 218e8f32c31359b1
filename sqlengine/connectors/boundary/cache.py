"""Stands for the full cache of a source that a connector has opened."""

from __future__ import annotations

import pyarrow as pa

from sqlengine.connectors.boundary import answers
from sqlengine.connectors.boundary.calls import Calls
from sqlengine.connectors.full_cache import CacheStatus, FullCache
from sqlengine.system.lanes import Call


class WalledCache(FullCache):
    """Asks the full cache of a source, as `WalledSource` asks the source. `patience_s`: how long a
    graph waits for an answer."""

    def __init__(self, cache: FullCache, topic: str, calls: Calls, patience_s: float) -> None:
        self._cache = cache
        self._calls = calls
        self._patience_s = patience_s
        self._reloading: Call[bool] | None = None
        self.topic = topic

    @property
    def loaded(self) -> bool:
        return self._cache.loaded

    @property
    def status(self) -> CacheStatus:
        return self._cache.status

    def reload(self) -> bool:
        def work() -> bool:
            return answers.truth(self._cache.reload())

        calls = self._calls
        if not calls.beside or self._cache.quick:
            return calls.guarded("reload", work) if calls.beside else calls.need("reload", work)
        if self._reloading is None:
            calls.require_sound()
            self._reloading = calls.begin("reload", work)
            if self._reloading is None:
                return False
            self._reloading.wait(min(self._patience_s, calls.opened.timeout_s))
        reloading = self._reloading
        if not reloading.done:
            calls.require_in_time()
            return False
        self._reloading = None
        return reloading.result()

    def request(self) -> bool:
        return self._cache.request()

    def wait(self, seconds: float) -> bool:
        return self._cache.wait(seconds)

    def lines_at(self, offset: int) -> pa.Array:
        return self._calls.need("lines_at", lambda: answers.lines(self._cache.lines_at(offset)))

    def restore(self, lines: pa.Array, *, exclusive: bool) -> int | None:
        return self._calls.need(
            "restore",
            lambda: answers.whole_or_none(self._cache.restore(lines, exclusive=exclusive)),
        )

    def discard_before(self, offset: int) -> None:
        self._calls.ask(
            "discard_before",
            lambda: self._cache.discard_before(offset),
            None,
            self._patience_s,
        )
