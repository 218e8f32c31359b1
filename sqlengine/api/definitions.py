"""/api/v1/tables, /functions and /rules: what jobs define, and the rules among jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from flask import Blueprint, Response, jsonify, request

from planner.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Catalog,
    Function,
    Identifier,
    Table,
    View,
)
from planner.rule_settings import rule_in
from sqlengine.access.policy import Action
from sqlengine.api.conventions.pages import page_of
from sqlengine.api.principal import may
from sqlengine.api.problems import NotFound
from sqlengine.catalog.changes import full_name
from sqlengine.catalog.create_text import create_text
from sqlengine.catalog.describe import describe_table
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.formats.results import rows_of
from sqlengine.jobs.job import Job
from udf.reference import Entry, entry_named, function_names

_HERE = (DEFAULT_CATALOG, DEFAULT_DATABASE)
_DESCRIBED = ("name", "type", "null", "key", "extras", "watermark", "comment")


def definitions_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes of what jobs define."""
    blueprint = Blueprint("definitions", __name__, url_prefix="/api/v1")
    _add_tables(blueprint, engine)
    _add_functions(blueprint, engine)
    _add_rules(blueprint, engine)
    return blueprint


def _add_tables(blueprint: Blueprint, engine: Engine) -> None:
    @blueprint.get("/tables")
    def list_tables() -> Response:
        """Lists the tables and views that jobs define for all, with their columns."""
        found = [o for o in engine.catalog.objects.values() if isinstance(o, Table | View)]
        page, following = page_of(sorted(found, key=_key), _key)
        jobs = _seen_jobs(engine)
        return jsonify({"tables": [_table_json(o, jobs) for o in page], "next": following})

    @blueprint.get("/tables/<name>")
    def show_table(name: str) -> Response:
        """Shows a table or view: its columns, and the statement that makes it."""
        relation = engine.catalog.permanent(tuple(name.split(".", 2)))
        if not isinstance(relation, Table | View):
            raise _missing(f"table or view '{name}'", "/api/v1/tables lists all")
        body = _table_json(relation, _seen_jobs(engine))
        columns = _columns(engine.catalog, relation.name)
        return _tagged(body | {"columns": columns, "sql": masked(create_text(relation))})


def _add_functions(blueprint: Blueprint, engine: Engine) -> None:
    @blueprint.get("/functions")
    def list_functions() -> Response:
        """Lists functions by name: built-in ones, and those that jobs define for all."""
        own = {_short(f.name): f for f in _functions(engine)}
        names, following = page_of(sorted({*function_names(), *own}), str)
        jobs = _seen_jobs(engine)
        listed = [{"name": n, **_short_json(own.get(n), jobs)} for n in names]
        return jsonify({"functions": listed, "next": following})

    @blueprint.get("/functions/<name>")
    def show_function(name: str) -> Response:
        """Shows a function: how it is called, and what it gives."""
        built_in = entry_named(name)
        function = engine.catalog.function(tuple(name.split(".", 2)), built_in=built_in is not None)
        if function is not None and not function.temporary:
            return _tagged(_user_function_json(function, _seen_jobs(engine)))
        if built_in is None:
            raise _missing(f"function '{name}'", "/api/v1/functions lists all")
        return _tagged(_built_in_json(name.upper(), built_in))


def _add_rules(blueprint: Blueprint, engine: Engine) -> None:
    @blueprint.get("/rules")
    def list_rules() -> Response:
        """Lists the jobs whose text has the head of a rule, of ?status= and ?severity=, with
        ?tag=."""
        page, following = page_of([j for j in _seen_jobs(engine) if _is_asked_for(j)], _name)
        return jsonify({"rules": [_rule_json(job) for job in page], "next": following})

    @blueprint.get("/rules/<name>")
    def show_rule(name: str) -> Response:
        """Shows a rule, with the text of its job."""
        job = engine.job(name)
        if rule_in(job.settings) is None:
            raise _missing(f"rule '{name}'", "the text of its job has no '-- @rule'")
        text = masked(engine.log.version(name, job.version).sql)
        return _tagged(_rule_json(job) | {"sql": text})


def _seen_jobs(engine: Engine) -> list[Job]:
    return [job for job in engine.jobs() if may(Action.SEE_JOB, job.name)]


def _name(job: Job) -> str:
    return job.name


def _key(relation: Table | View) -> str:
    return _short(relation.name)


def _short(name: Identifier) -> str:
    """Returns a name without the default catalog and database."""
    text = full_name(name).removesuffix("()")
    return name[2].removesuffix("()") if name[:2] in (_HERE, ("", "")) else text


def _table_json(relation: Table | View, jobs: Iterable[Job]) -> dict[str, object]:
    schema = relation.schema if isinstance(relation, Table) else relation.plan.schema
    defined, used = _jobs_of(relation.name, jobs)
    return {
        "name": _short(relation.name),
        "kind": "table" if isinstance(relation, Table) else "view",
        "connector": relation.options.get("connector") if isinstance(relation, Table) else None,
        "column_names": list(schema.names),
        "primary_key": list(relation.primary_key) if isinstance(relation, Table) else [],
        "defined_by": defined,
        "used_by": used,
    }


def _jobs_of(name: Identifier, jobs: Iterable[Job]) -> tuple[list[str], list[str]]:
    """Returns the jobs that define an object, and those that use it."""
    known, wanted = list(jobs), full_name(name)
    defined = [job.name for job in known if wanted in job.defines]
    return defined, [job.name for job in known if wanted in job.uses]


def _columns(catalog: Catalog, name: Identifier) -> list[Mapping[str, object]]:
    found = describe_table(catalog, name)
    nothing = dict.fromkeys(_DESCRIBED)
    return [
        {**nothing, **dict(zip(found.schema.names, row, strict=True))} for _, row in rows_of(found)
    ]


def _functions(engine: Engine) -> list[Function]:
    return [o for o in engine.catalog.objects.values() if isinstance(o, Function)]


def _short_json(function: Function | None, jobs: Iterable[Job]) -> dict[str, object]:
    """Returns the kind of a function, and the jobs that define it; None: a built-in one."""
    if function is None:
        return {"kind": "built-in", "defined_by": []}
    return {"kind": function.user.kind, "defined_by": _jobs_of(function.name, jobs)[0]}


def _user_function_json(function: Function, jobs: Iterable[Job]) -> dict[str, object]:
    user = function.user
    return {
        "name": _short(function.name),
        **_short_json(function, jobs),
        "usage": user.signature,
        "text": user.doc,
        "deterministic": user.deterministic,
        "examples": [],
    }


def _built_in_json(name: str, entry: Entry) -> dict[str, object]:
    return {
        "name": name,
        **_short_json(None, ()),
        "usage": entry.usage,
        "text": entry.text,
        "deterministic": entry.deterministic,
        "examples": [asdict(example) for example in entry.examples],
    }


def _is_asked_for(job: Job) -> bool:
    rule = rule_in(job.settings)
    if rule is None:
        return False
    tag = request.args.get("tag")
    return (
        request.args.get("status") in (None, rule.status)
        and request.args.get("severity") in (None, rule.severity)
        and (tag is None or tag in rule.tags)
    )


def _rule_json(job: Job) -> dict[str, object]:
    rule = rule_in(job.settings)
    assert rule is not None
    about = {"name": job.name, "version": job.version, "state": job.state.value}
    return about | {"rule": asdict(rule)}


def _missing(what: str, hint: str) -> NotFound:
    return NotFound(f"{what[:200]} does not exist", hint=hint)


def _tagged(body: Mapping[str, object]) -> Response:
    """Returns an answer with an ETag; 304 for who has it already."""
    response = jsonify(body)
    response.add_etag()
    response.make_conditional(request)
    return response
