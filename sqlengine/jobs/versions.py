"""Numbers the versions of jobs, and knows which others each needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.catalog.changes import full_name
from sqlengine.jobs.job import AT_REST, Job, JobVersion, Origin
from sqlengine.jobs.log import JobLog
from sqlengine.jobs.planning import JobText, PlannedJob


class Versions:
    """Makes the next versions of the jobs of one log, which are not written to it here."""

    def __init__(self, log: JobLog, clock: Callable[[], int]) -> None:
        self._log = log
        self._clock = clock

    def next(self, text: JobText, origin: Origin) -> JobVersion:
        """Returns the next version of a job by its text alone."""
        return JobVersion(
            rule_of(text.name),
            self._log.next_version(text.name),
            text.sql,
            origin,
            self._clock(),
            text.file,
            by=text.by,
        )

    def planned(
        self,
        texts: Mapping[str, JobText],
        plans: Mapping[str, PlannedJob],
        origin: Origin,
        kept: Mapping[str, str],
    ) -> dict[str, JobVersion]:
        """Returns the versions of planned jobs, each with the versions that define what it uses: of
        the same change, else of the catalog. Renamed jobs (`kept`: new name -> old) keep theirs,
        and so do shadows that become live."""
        jobs = self._log.jobs
        fresh = {
            name: (
                self._log.renamed(jobs[kept[name]], name, texts[name].file)[0]
                if name in kept
                else self._planned(texts[name], origin, plans)
            )
            for name in plans
        }
        defining = sorted((j for j in jobs.values() if j.defines), key=lambda j: j.name)
        definers = {o: (j.name, j.version) for j in reversed(defining) for o in j.defines}
        for name, plan in plans.items():
            definers |= {full_name(o.name): (name, fresh[name].version) for o in plan.objects}
        needs = {
            n: dict(definers[o] for o in map(full_name, p.uses) if o in definers)
            for n, p in plans.items()
        }
        return {
            n: replace(v, needs=needs[n], modules=dict(plans[n].modules)) for n, v in fresh.items()
        }

    def _planned(self, text: JobText, origin: Origin, plans: Collection[str]) -> JobVersion:
        """Returns the version of a planned job: of one that is promoted that of its shadow."""
        if text.promotes:
            return self._log.version(text.name, text.promotes)
        version = self.next(text, origin)
        if not is_shadow(text.name):
            return version
        number, beside = self.of_shadow(text.name, plans), self.beside(text.name, plans)
        return replace(version, version=number, shadow=True, beside=beside)

    def of_shadow(self, name: str, plans: Collection[str]) -> int:
        """Returns the number of a shadow's next version; `plans`: the jobs that get new ones."""
        return self._log.next_version(name) + (rule_of(name) in plans)

    def beside(self, name: str, plans: Collection[str]) -> int:
        """Returns the live version beside a new shadow; 0 where there is none."""
        live = self._log.jobs.get(rule_of(name))
        if live is None or live.state in AT_REST:
            return 0
        return self._log.next_version(name) if live.name in plans else live.version

    def following(
        self,
        versions: Mapping[str, JobVersion],
        dependents: Iterable[str],
        causes: Mapping[str, Collection[str]],
    ) -> dict[str, JobVersion]:
        """Returns the versions of jobs that are planned again because others define differently
        what they use: each keeps its origin. `causes`: the jobs that define an object so."""
        found = {}
        for name in (n for n in dependents if n in versions):
            job = self._log.jobs[name]
            by = sorted({cause for item in job.uses for cause in causes.get(item, ())})
            found[name] = replace(versions[name], origin=job.origin, follows=tuple(by))
        return found

    def earlier(self, renamed: Mapping[str, str]) -> list[JobVersion]:
        """Returns the history that renamed jobs take along (new name -> old), without the versions
        that run."""
        jobs = {new: self._log.jobs[old] for new, old in renamed.items()}
        return [v for new, job in jobs.items() for v in self._log.renamed(job, new, None)[1]]

    def needs(self, name: str, version: int) -> dict[str, int]:
        """Returns the job versions that define what this one uses, and transitively what those use:
        of two versions of a job the later."""
        needs: dict[str, int] = {}
        waiting = [(name, version)]
        while waiting:
            for need, number in self._log.version(*waiting.pop()).needs.items():
                if needs.get(need, 0) < number:
                    needs[need] = number
                    waiting.append((need, number))
        return needs

    def is_stale(self, job: Job) -> bool:
        """True if a job that its version needs has another version now: what runs of it, or what it
        keeps, knows the definitions of before."""
        jobs, needs = self._log.jobs, self.needs(job.name, job.version)
        return any(n not in jobs or jobs[n].version != v for n, v in needs.items())
