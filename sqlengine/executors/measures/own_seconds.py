"""The time that operators took for single jobs, where jobs share them."""

from __future__ import annotations

from collections.abc import Mapping


class OwnSeconds:
    """Seconds by node and job. Written by the graph's thread, read by any."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, float]] = {}

    def add(self, node: str, rows: Mapping[str, int], seconds: float) -> None:
        """Adds time of a node that was spent for these jobs, by the rows of each."""
        jobs, total = self._by_node.setdefault(node, {}), sum(rows.values())
        for job, number in rows.items():
            jobs[job] = jobs.get(job, 0.0) + seconds * number / total

    def remove(self, node: str) -> None:
        """Forgets a node that is gone."""
        self._by_node.pop(node, None)

    def of(self, node: str) -> dict[str, float]:
        """Returns the seconds of a node so far, by job."""
        return dict(self._by_node.get(node, {}))
