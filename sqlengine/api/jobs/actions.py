"""/api/v1/jobs/NAME/…: what is done with a job whose text stays."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from sqlengine.access.plans import may_see_savepoint
from sqlengine.access.policy import Action
from sqlengine.api.conventions.preconditions import check_job, expected
from sqlengine.api.jobs.job_json import outcome_json
from sqlengine.api.principal import may, present_principal, request_origin
from sqlengine.api.queries import flag
from sqlengine.broker.topic_access import BadRequest
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, begin_of
from sqlengine.jobs.job import AT_REST, JobState
from sqlengine.jobs.targets import target_of


def add_actions(blueprint: Blueprint, engine: Engine) -> None:
    """Adds the routes that act on a job."""
    _add_start_and_stop(blueprint, engine)
    _add_moves(blueprint, engine)


def _add_start_and_stop(blueprint: Blueprint, engine: Engine) -> None:
    """Adds start, stop and rollback."""

    @blueprint.post("/<name>/start")
    def start(name: str) -> Response:
        """Starts a job where it was: or from ?savepoint=, or with ?from=configured, earliest,
        latest or a time (ms, or ISO 8601) as a new job does."""
        begin, savepoint = begin_of(request.args.get("from")), request.args.get("savepoint")
        if savepoint is not None and not may(Action.ADMINISTER):
            may_see_savepoint(present_principal(), engine.savepoints.show(savepoint).job)
        check_job(engine, name)
        if flag("dry-run"):
            return jsonify(outcome_json(_start_prepared(engine, name)))
        by = present_principal()
        return jsonify(outcome_json(engine.start_job(name, savepoint, begin, by)))

    @blueprint.post("/<name>/stop")
    def stop(name: str) -> Response:
        """Stops a job: with ?savepoint=true after a savepoint below ?folder=, with ?drain=true also
        after all its windows have fired, as if its sources had ended."""
        check_job(engine, name)
        if flag("dry-run"):
            return jsonify(outcome_json(_stop_prepared(engine, name)))
        if flag("drain"):
            return jsonify(outcome_json(engine.drain_job(name, request.args.get("folder"))))
        if flag("savepoint"):
            return jsonify(
                outcome_json(engine.save_job(name, request.args.get("folder"), stop=True))
            )
        return jsonify(outcome_json(engine.stop_job(name)))

    @blueprint.post("/<name>/rollback")
    def rollback(name: str) -> Response:
        """Submits version ?version= of a job again."""
        version = request.args.get("version", "")
        if not (version.isascii() and version.isdigit()):
            raise BadRequest("a rollback needs ?version=N", hint="'history' lists the versions")
        done = engine.rollback(
            name,
            int(version),
            request_origin(),
            present_principal(),
            dry_run=flag("dry-run"),
            expected=expected(),
        )
        return jsonify(outcome_json(done))


def _add_moves(blueprint: Blueprint, engine: Engine) -> None:
    """Adds isolate, merge, move, and what reloads look-ups."""

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


def _start_prepared(engine: Engine, name: str) -> Outcome:
    """Returns what a start of a job would come to, without making it."""
    job = engine.job(name)
    if job.state in (JobState.RUNNING, JobState.DEFINED):
        return Outcome(name, "unchanged", job.version)
    return engine.rollback(name, job.version, dry_run=True)


def _stop_prepared(engine: Engine, name: str) -> Outcome:
    """Returns what a stop of a job would come to."""
    if flag("savepoint") or flag("drain"):
        return engine.save_prepared(name, request.args.get("folder"))
    job = engine.job(name)
    stopped = job.state in (*AT_REST, JobState.STOPPED)
    return Outcome(name, "unchanged" if stopped else "valid", job.version)
