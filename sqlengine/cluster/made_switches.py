"""The switches of a distributed graph that its control log keeps, with the migration of each."""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.cluster.control_log import ControlEntry, ControlLog, Switch


class MadeSwitches:
    """Knows which switches and migrations a recovery of a subtask may read again.

    The thread that makes changes adds to it, that of the graph forgets."""

    def __init__(self, control: ControlLog, entries: Iterable[ControlEntry]) -> None:
        self._control = control
        switches = (entry for entry in entries if isinstance(entry, Switch))
        self._migrations = {e.version: e.migration for e in switches}  # by version, "" for most

    def add(self, version: int, migration: str) -> None:
        """Takes note of a switch that is in the log."""
        self._migrations[version] = migration

    def needed_migrations(self) -> set[str]:
        """Returns the migrations that a recovery may read again."""
        return {name for name in list(self._migrations.values()) if name}

    def forget(self, stored: int, now_ms: int) -> None:
        """Deletes switches that no subtask will replay: all checkpoints are at version `stored` of
        the graph or past it."""
        passed = sorted(version for version in list(self._migrations) if version <= stored)
        # No recovery of any subtask reads these migrations again.
        self._migrations |= dict.fromkeys(passed, "")
        obsolete = passed[:-1]  # without the last one a reader would not notice a gap
        if obsolete:
            self._control.forget(obsolete, now_ms)
            for version in obsolete:
                del self._migrations[version]
