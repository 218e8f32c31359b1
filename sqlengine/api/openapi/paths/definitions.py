"""The routes of what jobs define, and of the rules among jobs."""

from __future__ import annotations

from typing import Final

from planner.rule_settings import Status
from sqlengine.api.openapi.forms import PAGES, TEXT, Endpoint, Query, one_of, ref

DEFINITIONS: Final = (
    Endpoint(
        "GET",
        "/api/v1/tables",
        "the tables and views that jobs define for all",
        ref("Tables"),
        PAGES,
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/tables/{name}",
        "a table or view with its columns, and the statement that makes it",
        ref("TableWithColumns"),
        refusals=(404,),
        cached=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/functions",
        "all functions: built-in ones, and those that jobs define for all",
        ref("Functions"),
        PAGES,
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/functions/{name}",
        "how a function is called, and what it gives",
        ref("FunctionWithText"),
        refusals=(404,),
        cached=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/rules",
        "the jobs that are rules, with their heads",
        ref("Rules"),
        (
            Query("status", "only those in this part of their life", one_of(*Status)),
            Query("severity", "only those of this severity", TEXT),
            Query("tag", "only those with this tag", TEXT),
            *PAGES,
        ),
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/rules/{name}",
        "a rule with the text of its job",
        ref("RuleWithText"),
        refusals=(404,),
        cached=True,
    ),
)
