"""Dead letters over HTTP: rows that could not be processed, and their replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice

from flask import Blueprint, Response, jsonify, request

from sqlengine.access.policy import Action
from sqlengine.api.principal import may
from sqlengine.api.queries import flag, whole_number
from sqlengine.broker.topic_access import BadRequest
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetter, DeadLetterFilter
from sqlengine.engine.replaying import MAX_LETTERS, Replayed
from sqlengine.executors.dead_letters import Owner

_PAGE = 100


def dead_letters_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine."""
    blueprint = Blueprint("letters", __name__, url_prefix="/api/v1")

    @blueprint.get("/dead-letters")
    def all_letters() -> Response:
        """Lists letters behind number ?after=, oldest first, or the last ones: at most ?limit=, of
        ?table=, since ?since= (ms)."""
        return _page(engine, None)

    @blueprint.get("/jobs/<name>/dead-letters")
    def of_job(name: str) -> Response:
        """Lists the letters of a job and of the tables that it reads."""
        engine.history(name)
        return _page(engine, name)

    @blueprint.post("/jobs/<name>/dead-letters/replay")
    def replay(name: str) -> Response:
        """Replays the records of letters, once each: JSON {"ids": [1, 2]}, or all; at most
        ?limit=. With ?dry-run=true says which these are."""
        limit = whole_number("limit", MAX_LETTERS)
        done = engine.replay(name, _ids(), limit, dry_run=flag("dry-run"))
        return jsonify(replayed_json(name, done))

    return blueprint


def _page(engine: Engine, job: str | None) -> Response:
    limit = max(1, min(whole_number("limit", _PAGE), MAX_LETTERS))
    wanted = DeadLetterFilter(
        job,
        _tables(engine, job),
        request.args.get("table"),
        whole_number("since", 0),
        seen=None if may(Action.ADMINISTER) else _seen(engine),
        readable=_is_readable,
    )
    if "after" in request.args:
        letters = list(islice(engine.dead_letters.read(wanted, whole_number("after", -1)), limit))
    else:
        letters = engine.dead_letters.last(wanted, limit)
    bodies = [letter_json(engine, letter) for letter in letters]
    return jsonify(
        {"letters": bodies, "next": letters[-1].id if letters else whole_number("after", -1)}
    )


def _tables(engine: Engine, job: str | None) -> tuple[str, ...]:
    known = engine.log.jobs.get(job) if job is not None else None
    return known.uses + known.defines if known is not None else ()


def _seen(engine: Engine) -> Callable[[Owner], bool]:
    """Returns what tells whether who asks may see letters of an owner: of jobs that he may see,
    and of the tables that these read."""
    jobs = [j for j in engine.jobs() if may(Action.SEE_JOB, j.name)]
    tables = {t for j in jobs for t in j.uses + j.defines}

    def is_seen(owner: Owner) -> bool:
        job, table = owner
        return may(Action.SEE_JOB, job) if job else table in tables

    return is_seen


def _is_readable(stored: str) -> bool:
    """True if who asks may see malformed records of a topic. Those of files go by their table."""
    return not stored or "/" in stored or may(Action.READ_TOPIC, stored)


def letter_json(engine: Engine, letter: DeadLetter) -> dict[str, object]:
    """Returns a letter as JSON, with its position in the text of the job's version, that text, and
    the jobs that have got the record again."""
    body: dict[str, object] = {
        **asdict(letter),
        "replayed": sorted(engine.dead_letters.replayed(letter.id)),
    }
    position, text = engine.statement_of(letter)
    if position is not None:
        body |= {
            "line": position.line,
            "column": position.column,
            "length": position.length,
            "sql": text,
        }
    return body


def replayed_json(job: str, done: Replayed) -> dict[str, object]:
    refused = [{"id": r.letter, "reason": r.reason} for r in done.refused]
    return {
        "job": job,
        "replayed": list(done.letters),
        "refused": refused,
        "epoch": done.epoch,
        "failed": list(done.failed),
    }


def _ids() -> list[int] | None:
    body = request.get_data(cache=False)
    if not body:
        return None
    try:
        ids = json.loads(body).get("ids")
    except (ValueError, AttributeError, RecursionError):
        raise BadRequest("the body is not a JSON object", hint='send {"ids": [1, 2]}') from None
    if ids is not None and not (isinstance(ids, list) and all(type(i) is int for i in ids)):
        raise BadRequest("'ids' must be a list of whole numbers", hint='send {"ids": [1, 2]}')
    return ids
