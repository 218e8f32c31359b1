"""Looks after what is stored of jobs that wait for a source, apart from their graphs."""

from __future__ import annotations

from collections.abc import Collection

from sqlengine.graphs.apart import is_apart, keep_waiting, stored_apart
from sqlengine.graphs.host import GraphHost, PlanOf
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.running import RunningGraph
from sqlengine.snapshots.checkpoints import Apart


class ApartGraphs:
    """Opens and removes the graphs of jobs that wait, in the thread that makes changes."""

    def __init__(self, host: GraphHost, plan_of: PlanOf) -> None:
        self._host = host
        self._plan_of = plan_of
        self._stored: dict[str, Apart | None] = {}

    def open(self, name: str, waiting: Collection[str]) -> RunningGraph:
        """Recovers jobs apart from their graph, up to where that has logged them; those of them
        alone that are `waiting` still. The graph runs nothing, and is to be abandoned. SourceAway
        where the source has not come back."""
        keep_waiting(self._host.stores, name, waiting)
        self._stored.pop(name, None)
        return open_graph(name, self._host, self._plan_of)

    def stored(self) -> dict[str, Apart]:
        """Returns what is stored, by the name of the graph."""
        stores = self._host.stores
        names = [name for name in stores.names() if is_apart(name)]
        # With its tables: it is read once.
        self._stored |= {n: stored_apart(stores, n) for n in names if n not in self._stored}
        found = ((name, self._stored[name]) for name in names)
        return {name: apart for name, apart in found if apart is not None}

    def remove(self, needed: Collection[str]) -> None:
        """Removes what is stored, but for the `needed` names."""
        for name in filter(is_apart, self._host.stores.names()):
            if name not in needed:
                self._stored.pop(name, None)
                self._host.stores.remove(name)
                self._host.steps.forget(name)
