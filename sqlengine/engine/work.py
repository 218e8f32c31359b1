"""The progress of one request through planning and deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from parser.errors import SqlError
from sqlengine.broker.auto_create import NewTopic
from sqlengine.engine.requests import Outcome, Request
from sqlengine.graphs.takeover import StateReport
from sqlengine.jobs.definition_places import placed
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import JobText, PlannedJob


@dataclass
class Work:
    """Progress of one request. `texts`: the jobs to plan; `starts`: failed jobs that go on;
    `ready`: their plans, unless refused; `kept`: renamed jobs, new name -> old; `restores`: the
    paths of savepoints that jobs start from; `reports`: what becomes of the state of each job;
    `topics`: those that its tables need and that were missing before.

    `dependents`: the present texts of jobs that use what the request defines differently, and
    `causes`: these objects, each with the names of the request that define it so. `unchanged`:
    those whose plans stay as they are; `dormant`: those that do not run, and follow when they start
    anew; `failing`: the errors of those that could not be prepared; `fates`: what becomes of
    shadows that end with the change, by the names of their jobs."""

    request: Request
    texts: dict[str, JobText] = field(default_factory=dict)
    starts: list[Job] = field(default_factory=list)
    removes: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    ready: dict[str, PlannedJob] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reports: dict[str, tuple[StateReport, ...]] = field(default_factory=dict)
    restores: dict[str, str] = field(default_factory=dict)
    topics: dict[str, tuple[NewTopic, ...]] = field(default_factory=dict)

    dependents: dict[str, JobText] = field(default_factory=dict)
    causes: dict[str, set[str]] = field(default_factory=dict)
    dormant: set[str] = field(default_factory=set)
    unchanged: set[str] = field(default_factory=set)
    failing: dict[str, SqlError] = field(default_factory=dict)
    fates: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Forgets everything but what was asked for and what is known of it: an attempt begins."""
        for part in (self.ready, self.reports, self.restores, self.topics):
            part.clear()
        for found in (self.dependents, self.causes, self.failing, self.fates):
            found.clear()
        self.unchanged.clear()
        self.dormant.clear()

    def blamed(self, uses: Iterable[str]) -> set[str]:
        """Returns the names of the request that define one of these objects differently."""
        return set[str]().union(*(self.causes[o] for o in uses if o in self.causes))

    @property
    def asked(self) -> list[str]:
        """Names of the jobs that are ready, of those that the request names with a text."""
        return [n for n in self.ready if n not in self.dependents]

    @property
    def refused(self) -> frozenset[str]:
        """Names of the jobs that are refused."""
        return frozenset(n for n, o in self.outcomes.items() if o.status == "refused")

    def refuse(self, name: str, error: SqlError) -> None:
        """Refuses a text of the request; of a job that is only planned again, notes the error."""
        if name in self.dependents:
            self.failing[name] = error
        else:
            text = self.texts.get(name)
            told = error if text is None else placed(error, text.sql).in_file(text.file)
            self.outcomes[name] = Outcome(name, "refused", error=told)
        self.ready.pop(name, None)

    @property
    def touched(self) -> set[str]:
        """Names of all jobs that the request changes."""
        return {*self.texts, *self.removes, *self.kept.values()}

    @property
    def renamed_from(self) -> set[str]:
        """Old names of renamed jobs, unless they were refused."""
        return {self.kept[name] for name in self.ready if name in self.kept}

    @property
    def gone(self) -> set[str]:
        """Names that leave their graphs: removed jobs, the old names of renamed ones, and shadows
        that end."""
        return self.removes | self.renamed_from | (self.fates.keys() - self.ready.keys())
