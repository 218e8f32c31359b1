"""The table that a rule reads, by its log source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlengine.sigma.mappings import Mappings
from sqlengine.sigma.reading import Reading, Unconvertible
from sqlengine.sigma.rules import LogSource
from sqlengine.sigma.ruleset import Ruleset
from sqlengine.sigma.tables import EventTable


@dataclass(frozen=True)
class Sources:
    """Knows the rules, the tables that there are, and the mapping of log sources to them."""

    rules: Ruleset
    mappings: Mappings
    tables: Mapping[str, EventTable]

    def reading(self, source: LogSource) -> Reading:
        """Returns what rules of a log source read. Unconvertible where no table is there."""
        tried = []
        for name, chosen in self.mappings.tables_for(source):
            if name in self.tables:
                return self.mappings.reading(chosen, self.tables[name])
            tried.append(name)
        if not tried:
            raise Unconvertible(
                f"the mapping has no table for log source {source}",
                hint="add one under 'sources' of the mapping",
            )
        told = " or ".join(f"'{n}'" for n in dict.fromkeys(tried))
        raise Unconvertible(
            f"table {told} of log source {source} is not defined", hint="define it in _tables.sql"
        )
