"""Finishes what a crash or a full disk has interrupted, before anything else is changed."""

from __future__ import annotations

from sqlengine.engine.deploying.deployment import Deployment
from sqlengine.engine.draining import Draining
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.registry import Registry


class PendingChanges:
    """The change that stands in the job log until it is complete: of texts, of graphs, or the end
    of a job."""

    def __init__(
        self, registry: Registry, deployment: Deployment, migrations: Migrations, drains: Draining
    ) -> None:
        self._registry = registry
        self._deployment = deployment
        self._migrations = migrations
        self._drains = drains

    def finish(self) -> None:
        """Rolls forward the pending change, if there is one (the thread that makes changes)."""
        pending = self._registry.log.pending
        if pending is not None and pending.handover:
            self._migrations.finish()
        elif pending is not None and pending.drains:
            self._drains.finish(pending)
        else:
            self._deployment.finish()
