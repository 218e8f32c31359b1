"""Statements about the jobs of a server: STOP JOB, SHOW JOBS, ALTER of what jobs define."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from parser import parse
from parser.alterations import Alter
from parser.errors import SqlError, UnsupportedError
from parser.script import split
from parser.statements import Reset, Set, Show, StopJob
from sqlengine.access.policy import Action, allows, require
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.connectors.plain_secrets import plain_values
from sqlengine.engine import Engine
from sqlengine.engine.alterations import alter
from sqlengine.engine.requests import Outcome
from sqlengine.jobs.job import Job, Origin
from sqlengine.jobs.unknown_options import UnknownOptions
from sqlengine.snapshots.savepoint_files import FOLDERS
from sqlengine.system.hidden import hide

log = logging.getLogger("sqlengine")


@dataclass(frozen=True)
class Answer:
    """A result as rows, under Flink's names for its columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


_OK = Answer(("result",), (("OK",),))


def execute(
    engine: Engine, text: str, origin: Origin = Origin.REST, by: Principal = TRUSTED
) -> list[Answer]:
    """Executes statements about jobs one after the other; `origin` is that of the versions that
    they make, `by` asks for it.

    Raises the SqlError of the first bad one; those before it have taken effect.
    """
    try:
        return _executed(engine, text, origin, by)
    except SqlError as error:
        raise hide(error, plain_values(text)) from None


def _executed(engine: Engine, text: str, origin: Origin, by: Principal) -> list[Answer]:
    settings: dict[str, str] = {}
    answers = []
    options = UnknownOptions(log.warning)
    for statement, piece in zip(parse(text), split(text), strict=True):
        try:
            match statement:
                case Set(key=str() as key):
                    options.check_setting(statement, settings)
                    settings[key] = statement.value or ""
                    answers.append(_OK)
                case Reset():
                    options.check_setting(statement, settings)
                    settings.pop(statement.key or "", None)
                    answers.append(_OK)
                case StopJob():
                    answers.append(stop_job(engine, statement, settings, by))
                case Show(what="JOBS"):
                    answers.append(list_jobs(engine, by))
                case Alter():
                    answers.append(_altered(alter(engine, statement, piece.sql, origin, by)))
                case _:
                    raise UnsupportedError(
                        "this is no statement about jobs",
                        detail="STOP JOB, SHOW JOBS, ALTER TABLE and ALTER VIEW are, and SET",
                        hint="statements that define or insert are a job: 'sql submit'",
                    )
        except SqlError as error:
            raise error.at(statement.position) from None
    return answers


def _altered(outcome: Outcome) -> Answer:
    """The job that defines the object, with its new version, and the jobs that use it."""
    rows = tuple((o.name, o.status, o.version) for o in (outcome, *outcome.dependents))
    return Answer(("job name", "status", "version"), rows)


def stop_job(
    engine: Engine, statement: StopJob, settings: Mapping[str, str], by: Principal
) -> Answer:
    """Executes STOP JOB; a savepoint goes where the settings say."""
    require(by, Action.CHANGE_JOB, statement.job)
    if not statement.savepoint:
        engine.stop_job(statement.job)
        return _OK
    folder = next((settings[k] for k in FOLDERS if settings.get(k)), None)
    if statement.drain:
        outcome = engine.drain_job(statement.job, folder)
    else:
        outcome = engine.save_job(statement.job, folder, stop=True)
    return Answer(("savepoint path",), ((outcome.savepoint,),))


def list_jobs(engine: Engine, by: Principal) -> Answer:
    """Executes SHOW JOBS: those that the principal may see."""
    jobs = [job for job in engine.jobs() if allows(by, Action.SEE_JOB, job.name)]
    return Answer(("job id", "job name", "status", "start time"), tuple(map(_row, jobs)))


def _row(job: Job) -> tuple[object, ...]:
    moment = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(job.changed_ms / 1000))
        + f".{job.changed_ms % 1000:03}Z"
    )
    return job.name, job.name, job.state.value.upper(), moment
