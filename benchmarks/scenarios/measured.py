"""What every scenario measures, whatever comes of its alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from benchmarks.measure import percentile
from benchmarks.scenarios.kills import Outage, counted, slowest_s
from benchmarks.scenarios.usage import Usage


@dataclass(frozen=True)
class Measured:
    """By the name of a server its CPU seconds and the most resident memory (MB) of its lives; how late
    alerts were; and who was killed."""

    cpu_s: dict[str, float]
    peak_mb: dict[str, float]
    p50_ms: float
    p99_ms: float
    outages: list[Outage]

    @classmethod
    def of(cls, usage: Usage, late_ms: Sequence[float], outages: list[Outage]) -> Self:
        latencies = percentile(late_ms, 0.5), percentile(late_ms, 0.99)
        return cls(dict(usage.cpu_s), usage.peak_mb, *latencies, outages)

    # Rows of a page's table.

    @property
    def kills(self) -> list[list[str]]:
        return [
            ["kills", counted(self.outages)],
            ["the server's longest start", f"{slowest_s(self.outages, 'sql'):.1f} s"],
        ]

    @property
    def latency(self) -> list[str]:
        return ["latency p50 / p99", f"{self.p50_ms:,.0f} ms / {self.p99_ms:,.0f} ms"]

    @property
    def usage(self) -> list[list[str]]:
        return [
            *([f"CPU seconds: {name}", f"{s:,.0f}"] for name, s in self.cpu_s.items()),
            *([f"peak MB: {name}", f"{mb:,.0f}"] for name, mb in self.peak_mb.items()),
        ]
