"""The context of a statement that every step of the analysis gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.analysis.time_zones import zone_of
from planner.capabilities import Capabilities
from planner.catalog import Catalog, Table
from planner.scalar import UTC
from planner.settings import TIME_ZONE, is_batch


@dataclass(frozen=True)
class AnalysisContext:
    """The catalog and the settings of a statement, and what connectors say of its tables: the
    planner itself knows no connector."""

    catalog: Catalog
    settings: Mapping[str, str]
    capabilities_of: Callable[[Table], Capabilities]

    @cached_property
    def batch(self) -> bool:
        """True where 'execution.runtime-mode' is 'batch'. PlanError for an unknown mode."""
        return is_batch(self.settings)

    @cached_property
    def zone(self) -> str:
        """The session's time zone as the tz database names it. PlanError for an unknown one."""
        return zone_of(self.settings.get(TIME_ZONE, UTC))
