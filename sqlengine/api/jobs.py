"""/api/v1/jobs: jobs over HTTP."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from flask import Blueprint, Response, jsonify, request
from msgspec import to_builtins

from parser.canary import canary_of
from parser.errors import SqlError
from planner.rule_settings import Rule, rule_in
from sqlengine.access.plans import may_see_savepoint
from sqlengine.access.policy import Action
from sqlengine.access.shadow_names import is_shadow
from sqlengine.api.job_progress import NO_PROGRESS, progress_json
from sqlengine.api.pages import page_behind, page_of
from sqlengine.api.principal import may, need, present_principal, request_origin
from sqlengine.api.problems import describe_refusal, refusal_of_job
from sqlengine.api.queries import flag
from sqlengine.broker.auto_create import NewTopic
from sqlengine.broker.topic_access import BadRequest
from sqlengine.config import Target
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, Request, begin_of
from sqlengine.engine.views.family_views import FamilyView
from sqlengine.executors.job_counts import NOTHING, JobCounts
from sqlengine.jobs.job import Job, JobState, JobVersion
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.targets import target_of, target_of_graph
from sqlengine.system.hidden import hidden


class WatchedFolder(Protocol):
    """The watched folder, as far as people are told about it."""

    def problems(self) -> Mapping[Path, SqlError]:
        """Returns the files that were not taken, with the reason."""

    def tried_again(self) -> Collection[Path]:
        """Returns those of them that are tried again by themselves."""

    def overridden(self) -> Sequence[FileState]:
        """Returns the files whose jobs another way has changed since."""


class FileState(Protocol):
    """The state of a file of the watched folder."""

    def as_json(self) -> dict[str, object]: ...


class NoFolder:
    """The folder of a server that watches none."""

    def problems(self) -> Mapping[Path, SqlError]:
        return {}

    def tried_again(self) -> Collection[Path]:
        return ()

    def overridden(self) -> Sequence[FileState]:
        return ()


NO_FOLDER = NoFolder()


def jobs_blueprint(engine: Engine, folder: WatchedFolder) -> Blueprint:
    """Returns the routes of jobs."""
    blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1/jobs")
    _add_collection(blueprint, engine, folder)
    _add_job(blueprint, engine)
    _add_actions(blueprint, engine)
    return blueprint


def _add_collection(blueprint: Blueprint, engine: Engine, folder: WatchedFolder) -> None:
    """Adds the routes of all jobs together: list them, submit one or many."""

    @blueprint.get("")
    def list_jobs() -> Response:
        """Lists jobs by name without their texts, all or ?limit= of those behind job ?after=, and
        the files of the watched folder that were not taken, or whose jobs another way has changed
        since."""
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
        texts = _texts(engine.config.uploads)
        for name in texts:
            need(Action.CHANGE_JOB, name)
        outcomes = engine.change(_request(texts))
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
        return _answer(engine.change(_request({name: text})))

    @blueprint.delete("/<name>")
    def remove(name: str) -> Response:
        removes = frozenset({name})
        asked = Request(request_origin(), removes=removes, by=present_principal())
        return _answer(engine.change(asked))

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
        return jsonify(shown | progress_json(progress, details=True) | more)

    @blueprint.get("/<name>/history")
    def history(name: str) -> Response:
        """Lists the versions of a job, oldest first, all or ?limit= of those behind ?after=."""
        found, following = page_behind(engine.history(name), lambda v: str(v.version))
        versions = [version_json(v) for v in found]
        return jsonify({"name": name, "versions": versions, "next": following})

    @blueprint.get("/<name>/explain")
    def explain(name: str) -> Response:
        if request.args.get("format") == "json":
            plan = hidden(json.dumps(engine.explain_json(name)))
            return Response(plan, mimetype="application/json")
        return Response(hidden(engine.explain(name)), mimetype="text/plain")


def _add_actions(blueprint: Blueprint, engine: Engine) -> None:
    """Adds the routes that act on a job: start, stop, isolate, merge, move, reload look-ups, roll
    back."""

    @blueprint.post("/<name>/start")
    def start(name: str) -> Response:
        """Starts a job where it was: or from ?savepoint=, or with ?from=configured, earliest,
        latest or a time (ms, or ISO 8601) as a new job does."""
        begin, savepoint = begin_of(request.args.get("from")), request.args.get("savepoint")
        if savepoint is not None and not may(Action.ADMINISTER):
            may_see_savepoint(present_principal(), engine.savepoints.show(savepoint).job)
        by = present_principal()
        return jsonify(outcome_json(engine.start_job(name, savepoint, begin, by)))

    @blueprint.post("/<name>/stop")
    def stop(name: str) -> Response:
        """Stops a job: with ?savepoint=true after a savepoint below ?folder=, with ?drain=true also
        after all its windows have fired, as if its sources had ended."""
        if flag("drain"):
            return jsonify(outcome_json(engine.drain_job(name, request.args.get("folder"))))
        if flag("savepoint"):
            return jsonify(
                outcome_json(engine.save_job(name, request.args.get("folder"), stop=True))
            )
        return jsonify(outcome_json(engine.stop_job(name)))

    @blueprint.post("/<name>/isolate")
    def isolate(name: str) -> Response:
        """Moves a job with its state into a graph of its own."""
        return jsonify(outcome_json(engine.isolate(name)))

    @blueprint.post("/<name>/merge")
    def merge(name: str) -> Response:
        """Moves a job into the graph that it shares with others, at once ('merged') or as soon as
        it can be ('merging')."""
        return jsonify(outcome_json(engine.merge(name)))

    @blueprint.post("/<name>/move")
    def move(name: str) -> Response:
        """Moves a job with its state to where ?to= says: 'embedded' or 'spark'."""
        return jsonify(outcome_json(engine.move(name, target_of(request.args.get("to", "")))))

    @blueprint.post("/<name>/reload-lookups")
    def reload_lookups(name: str) -> Response:
        """Has the tables read again in which a job looks rows up, where these are held as a
        whole."""
        return jsonify({"tables": engine.reload_lookups(name)})

    @blueprint.post("/<name>/rollback")
    def rollback(name: str) -> Response:
        version = request.args.get("version", "")
        if not (version.isascii() and version.isdigit()):
            raise BadRequest("a rollback needs ?version=N", hint="'history' lists the versions")
        done = engine.rollback(name, int(version), request_origin(), present_principal())
        return jsonify(outcome_json(done))


def _request(texts: Mapping[str, JobText]) -> Request:
    """Returns the change that a request asks for; ?savepoint= is what its one job starts from,
    ?target= where its jobs run."""
    path = request.args.get("savepoint")
    if path is not None and len(texts) != 1:
        raise BadRequest(
            "?savepoint= is for one job",
            hint="send one, or name it in the text: SET 'execution.savepoint.path'",
        )
    savepoints = {} if path is None else dict.fromkeys(texts, path)
    target = request.args.get("target")
    return Request(
        request_origin(),
        texts,
        dry_run=flag("dry-run"),
        savepoints=savepoints,
        targets={} if target is None else dict.fromkeys(texts, target_of(target)),
        by=present_principal(),
    )


def body_text() -> str:
    try:
        return request.get_data(cache=False).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("the request's body is not UTF-8", detail=str(error)) from None


def _texts(uploads: bool) -> dict[str, JobText]:
    body, file = body_text(), request.args.get("file")
    if request.mimetype == "application/json":
        modules, files = _strings(body, "modules", "text_tools.py"), _strings(body, "files", "r1")
        if modules and not uploads:
            raise BadRequest(
                "this server takes no modules with a job",
                hint="start it with --uploads, or use its folder",
            )
        if modules:  # Python in the server's own name
            need(Action.ADMINISTER)
        return {n: JobText(n, sql, files.get(n, file), uploads=modules) for n, sql in _pairs(body)}
    name = request.args.get("name")
    if not name:
        raise BadRequest(
            "the job has no name", hint="give it as ?name=NAME, or PUT to /api/v1/jobs/NAME"
        )
    return {name: JobText(name, body, file)}


def _strings(body: str, member: str, example: str) -> dict[str, str]:
    """Returns an object of strings in a JSON body: the sources of users' modules by file name,
    {"modules": {"text_tools.py": "…"}}, or the files of jobs by name, {"files": {"r1": "…"}}."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # `_pairs` says what is wrong
    given = data.get(member, {}) if isinstance(data, dict) else {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        what = "sources" if member == "modules" else "paths"
        raise BadRequest(
            f"'{member}' holds no {what}", hint=f'send {{"{member}": {{"{example}": "…"}}}}'
        )
    return given


def _pairs(body: str) -> list[tuple[str, str]]:
    """Returns the names and texts of jobs in a JSON body."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON", detail=str(error)) from None
    jobs: object = None
    if isinstance(data, dict):
        jobs = data["jobs"] if "jobs" in data else _pair(data.get("name"), data.get("sql"))
    if not isinstance(jobs, dict) or not all(
        isinstance(t, str) for pair in jobs.items() for t in pair
    ):
        raise BadRequest(
            "the body names no job with its SQL",
            hint='send {"name": "r1", "sql": "…"} or {"jobs": {"r1": "…"}}',
        )
    return list(jobs.items())


def _pair(name: object, sql: object) -> object:
    return {name: sql} if isinstance(name, str) else None


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
    return response


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """Returns the outcome of a request for a job, as JSON."""
    body: dict[str, object] = {
        "name": outcome.name,
        "status": outcome.status,
        "version": outcome.version,
    }
    if outcome.error is not None:
        body["error"] = describe_refusal(outcome.error)
    if outcome.savepoint is not None:
        body["savepoint"] = outcome.savepoint
    if outcome.state:
        body["state"] = [
            {"operator": s.operator, "outcome": s.outcome, "reason": s.reason}
            for s in outcome.state
        ]
    if outcome.topics:
        body["topics"] = [_topic_json(t, created=outcome.status != "valid") for t in outcome.topics]
    if outcome.deliveries:
        body["sinks"] = [d.as_json() for d in outcome.deliveries]
    if outcome.warnings:
        body["warnings"] = list(outcome.warnings)
    if outcome.dependents:
        body["dependents"] = [outcome_json(o) for o in outcome.dependents]
    return body


def _topic_json(topic: NewTopic, *, created: bool) -> dict[str, object]:
    """Returns a topic that a job's table needs and that was missing, as JSON."""
    body: dict[str, object] = {
        "name": topic.name,
        "shards": topic.shards,
        "retention_ms": topic.retention_ms,
        "compacted": topic.compacted,
        "created": created,
        "text": str(topic),
    }
    return body if topic.similar is None else body | {"similar": topic.similar}


def job_json(
    job: Job,
    version: JobVersion,
    counts: JobCounts,
    hint: str | None = None,
    *,
    target: Target,
    cost_s: float = 0.0,
    families: Sequence[FamilyView] = (),
) -> dict[str, object]:
    """Returns a job with its present version as JSON. `counts`: over all its versions and restarts;
    `hint`: what is perhaps wrong with it; `target`: where its graph runs; `cost_s`: the time of its
    operators since the server started; `families`: those in which it runs."""
    rule = rule_in(job.settings)
    return {
        "name": job.name,
        "version": job.version,
        "state": job.state.value,
        "origin": job.origin.value,
        "by": version.by or None,
        "file": version.file,
        "changed_ms": job.changed_ms,
        "reason": None if job.reason is None else hidden(job.reason),
        "hint": hint,
        "restarts": job.restarts,
        "next_ms": job.next_ms if job.state is JobState.RESTARTING else None,
        "position": "kept" if job.kept else None,
        "graph": job.graph,
        "target": target,
        "isolated": job.cause.value,
        "rows": counts.rows,
        "version_rows": counts.version_rows if counts.version == job.version else 0,
        "late_rows": counts.late_rows,
        "held_back": counts.held_back,
        "dead_letters": counts.dead_letters,
        "cost_s": round(cost_s, 3),
        "families": to_builtins(families),
        "defines": list(job.defines),
        "uses": list(job.uses),
        "rule": None if rule is None else asdict(rule),
        "canary": _canary_json(job, rule),
    }


def _canary_json(job: Job, rule: Rule | None) -> dict[str, object] | None:
    """Returns the canary of a shadow, with how long it has run as far as that has been noted."""
    if rule is None or not rule.canary or not is_shadow(job.name):
        return None
    duration_ms = canary_of(rule.canary).duration_ms
    return {"text": rule.canary, "ran_ms": job.ran_ms, "duration_ms": duration_ms}


def version_json(version: JobVersion) -> dict[str, object]:
    return {
        "version": version.version,
        "created_ms": version.created_ms,
        "origin": version.origin.value,
        "by": version.by or None,
        "file": version.file,
        "follows": list(version.follows),
        "shadow": version.shadow,
        "beside": version.beside or None,
        "fate": version.fate or None,
        "fate_ms": version.fate_ms or None,
        "sql": masked(version.sql),
    }
