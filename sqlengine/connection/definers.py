"""The names of the jobs that define and fill tables of Python programs: `table.NAME`, unless that
job has a table that was renamed, and `insert.NAME.MARK`, where the mark is that of the rows."""

from __future__ import annotations

from itertools import count
from typing import Final

from xxhash import xxh3_64_hexdigest

from parser.errors import JobError, ServiceError
from sqlengine.connection.jobs import RUNS, Jobs

PREFIX: Final = "table."
_HOMES: Final = ("default_catalog.default_database.", "default_catalog.", "")
# The digits of a mark, and what is used of the name of a table.
_MARK, _LONGEST = 8, 100


def definer_of(jobs: Jobs, table: str) -> str | None:
    """Returns the job that defines a table and is named as those that a statement, or a program,
    makes for one; None where there is none."""
    full = {home + table for home in _HOMES}  # the name may have that of its database
    found = (job for job, objects in jobs.defines().items() if full.intersection(objects))
    return next((job for job in found if job.startswith(PREFIX)), None)


def job_for(jobs: Jobs, table: str) -> str:
    """Returns the job that is to define a table: the one that does, else one that defines nothing
    else."""
    own, defines = PREFIX + table, jobs.defines()
    names = (own if n == 1 else f"{own}-{n}" for n in count(1))
    return definer_of(jobs, table) or next(name for name in names if not defines.get(name))


def registered(jobs: Jobs, table: str) -> str:
    """Returns the job that defines a table. JobError where there is none."""
    job = definer_of(jobs, table)
    if job is None:
        hint = "'SHOW TABLES' lists what there is"
        raise JobError(f"table '{table}' is not one that was registered", hint=hint)
    return job


def job_into(table: str, sql: str) -> str:
    """Returns the name of the job that writes these rows to a table."""
    return _prefix(table) + xxh3_64_hexdigest(f"{table}\0{sql}".encode())[:_MARK]


def check_fresh(jobs: Jobs, table: str, name: str) -> None:
    """Raises ServiceError where another job than that of this name writes its rows to a table."""
    prefix = _prefix(table)
    for job in jobs:
        marked = job.name.startswith(prefix) and len(job.name) == len(prefix) + _MARK
        if marked and job.name != name and job.state in RUNS:
            raise ServiceError(
                f"table '{table}' is filled by the job '{job.name}' already, with other rows",
                hint=f"job='{job.name}' gives it these in their place; without create=True they"
                " come beside them",
            )


def _prefix(table: str) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in table)
    return f"insert.{plain[:_LONGEST]}."
