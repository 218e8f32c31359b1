"""/api/v1/jobs: jobs over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from flask import Blueprint, Response, jsonify, request

from sqlengine.access.policy import Action
from sqlengine.api.conventions.pages import page_behind, page_of
from sqlengine.api.conventions.preconditions import expected, tag_of
from sqlengine.api.events import events_of_jobs, stream, wants_events
from sqlengine.api.jobs.actions import add_actions
from sqlengine.api.jobs.job_json import job_json, outcome_json, version_json
from sqlengine.api.jobs.job_progress import NO_PROGRESS, progress_json
from sqlengine.api.jobs.job_requests import body_text, change_request, texts_in
from sqlengine.api.jobs.watched_folder import WatchedFolder
from sqlengine.api.principal import may, need, present_principal, request_origin
from sqlengine.api.problems import describe_refusal, refusal_of_job
from sqlengine.api.queries import flag
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, Request
from sqlengine.executors.job_counts import NOTHING
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.targets import target_of_graph
from sqlengine.system.hidden import hidden_in_sql


def jobs_blueprint(
    engine: Engine, folder: WatchedFolder, stopping: Callable[[], bool] = lambda: False
) -> Blueprint:
    """Returns the routes of jobs; `stopping`: the server ends."""
    blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1/jobs")
    _add_collection(blueprint, engine, folder, stopping)
    _add_job(blueprint, engine)
    add_actions(blueprint, engine)
    return blueprint


def _add_collection(
    blueprint: Blueprint, engine: Engine, folder: WatchedFolder, stopping: Callable[[], bool]
) -> None:
    """Adds the routes of all jobs together: list them, submit one or many."""

    @blueprint.get("")
    def list_jobs() -> Response:
        """Lists jobs by name without their texts, all or ?limit= of those behind job ?after=, and
        the files of the watched folder that were not taken, or whose jobs another way has changed
        since. Who accepts events gets those of jobs as they change."""
        if wants_events():
            return stream(events_of_jobs(engine, stopping))
        seen = [j for j in engine.jobs() if may(Action.SEE_JOB, j.name)]
        jobs, following = page_of(seen, lambda job: job.name)
        overridden = [file.as_json() for file in folder.overridden()]
        return jsonify(
            {
                "jobs": _jobs_json(engine, jobs),
                "refused_files": _refused_files(folder) if may(Action.ADMINISTER) else [],
                "overridden_files": [f for f in overridden if may(Action.SEE_JOB, str(f["job"]))],
                "next": following,
            }
        )

    @blueprint.post("")
    def submit() -> Response:
        """Adds or replaces jobs: SQL as text under ?name=, JSON {"name", "sql", "modules"}, or many
        in one change as {"jobs": {name: sql}, "files": {name: path}}."""
        texts = texts_in(engine.config.uploads)
        for name in texts:
            need(Action.CHANGE_JOB, name)
        outcomes = engine.change(change_request(texts))
        return _answer({name: outcomes[name] for name in texts}, many=len(texts) != 1)


def _refused_files(folder: WatchedFolder) -> list[dict[str, object]]:
    again = folder.tried_again()
    return [
        {"file": str(p), "error": describe_refusal(e), "tried_again": p in again}
        for p, e in sorted(folder.problems().items())
    ]


def _jobs_json(engine: Engine, jobs: Sequence[Job]) -> list[dict[str, object]]:
    counts, hints, progress = engine.counts(), engine.hints(), engine.progress.all(jobs)
    costs = engine.costs_by_job()
    return [
        job_json(
            job,
            engine.log.version(job.name, job.version),
            counts.get(job.name, NOTHING),
            hints.get(job.name),
            target=target_of_graph(job.graph, engine.config.target),
            cost_s=costs[job.name].seconds if job.name in costs else 0.0,
            families=engine.families_of(job.name),
        )
        | progress_json(progress.get(job.name, NO_PROGRESS), details=False)
        for job in jobs
    ]


def _add_job(blueprint: Blueprint, engine: Engine) -> None:
    """Adds the routes of a job as a resource: put, delete, show, history, plan."""

    @blueprint.put("/<name>")
    def put(name: str) -> Response:
        """Adds or replaces the job, whose SQL is the body."""
        text = JobText(name, body_text(), request.args.get("file"))
        return _answer(engine.change(change_request({name: text})))

    @blueprint.delete("/<name>")
    def remove(name: str) -> Response:
        """Removes the job; its versions stay in the history."""
        wanted = expected()
        removal = Request(
            request_origin(),
            removes=frozenset({name}),
            dry_run=flag("dry-run"),
            by=present_principal(),
            expected={} if wanted is None else {name: wanted},
        )
        return _answer(engine.change(removal))

    @blueprint.get("/<name>")
    def show(name: str) -> Response:
        """Shows a job; with ?settled=true what it had read by then is written."""
        job = engine.job(name)
        version = engine.log.version(name, job.version)
        counts, hint = engine.counts()[name], engine.hints().get(name)
        target = target_of_graph(job.graph, engine.config.target)
        cost_s = engine.costs_by_job()[name].seconds
        families = engine.families_of(name)
        shown = job_json(
            job, version, counts, hint, target=target, cost_s=cost_s, families=families
        )
        progress = engine.progress.of(job, settled=flag("settled"))
        spark = engine.spark() if target == "spark" else None
        more = {"spark_ui": spark and spark.ui, "sql": masked(version.sql)}
        response = jsonify(shown | progress_json(progress, details=True) | more)
        response.headers["ETag"] = tag_of(job.version)
        return response

    @blueprint.get("/<name>/history")
    def history(name: str) -> Response:
        """Lists the versions of a job, oldest first, all or ?limit= of those behind ?after=."""
        found, following = page_behind(engine.history(name), lambda v: str(v.version))
        versions = [version_json(v) for v in found]
        return jsonify({"name": name, "versions": versions, "next": following})

    @blueprint.get("/<name>/explain")
    def explain(name: str) -> Response:
        if request.args.get("format") == "json":
            plan = hidden_in_sql(json.dumps(engine.explain_json(name)))
            return Response(plan, mimetype="application/json")
        return Response(hidden_in_sql(engine.explain(name)), mimetype="text/plain")


def _answer(outcomes: Mapping[str, Outcome], many: bool = False) -> Response:
    if many:
        response = jsonify({"jobs": [outcome_json(o) for o in outcomes.values()]})
        response.status_code = 207 if any(o.status == "refused" for o in outcomes.values()) else 200
        return response
    (outcome,) = outcomes.values()
    if outcome.status == "refused" and outcome.error is not None:
        return refusal_of_job(outcome.error)
    response = jsonify(outcome_json(outcome))
    response.status_code = 201 if outcome.status == "added" else 200
    if outcome.version and outcome.status not in ("removed", "valid"):
        response.headers["ETag"] = tag_of(outcome.version)
    return response
