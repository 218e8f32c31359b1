"""/api/v1/costs: what jobs cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from flask import Blueprint, Response, jsonify

from sqlengine.access.policy import Action
from sqlengine.api.conventions.pages import page_behind
from sqlengine.api.principal import may
from sqlengine.engine import Engine
from sqlengine.engine.views.cost_views import CostView

# Of so many jobs, the costliest, conditions are measured for a list.
_MEASURED: Final = 20


def costs_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes of costs."""
    blueprint = Blueprint("costs", __name__, url_prefix="/api/v1")

    @blueprint.get("/costs")
    def list_costs() -> Response:
        """Lists running jobs by what they cost, the costliest first, all or ?limit= of them; with
        the slowest condition of each: of the first ones measured now."""
        jobs = [job for job in engine.jobs() if may(Action.SEE_JOB, job.name)]
        views, following = page_behind(engine.costs.all(jobs), lambda view: view.job)
        over = engine.budgets.over
        slowest = dict(engine.costs.slowest())
        for view in views[:_MEASURED]:
            for cost in engine.costs.conditions(engine.job(view.job))[:1]:
                slowest[view.job] = cost
        found = {job: asdict(condition) for job, condition in slowest.items()}
        listed = [_cost_json(v, over.get(v.job)) | {"slowest": found.get(v.job)} for v in views]
        return jsonify({"jobs": listed, "next": following})

    @blueprint.get("/jobs/<name>/cost")
    def show(name: str) -> Response:
        """Shows what a job costs, with all conditions of its filters."""
        job = engine.job(name)
        conditions = [asdict(c) for c in engine.costs.conditions(job)]
        cost = _cost_json(engine.costs.of(job), engine.budgets.over.get(name))
        return jsonify(cost | {"conditions": conditions})

    return blueprint


def _cost_json(view: CostView, over: str | None) -> dict[str, object]:
    """Returns what a job costs, as JSON; `over`: why it is over its budget."""
    us = view.cost.us_per_event
    return {
        "name": view.job,
        "graph": view.graph,
        "cpu_us_per_event": None if us is None else round(us, 3),
        "cpu_s": round(view.cost.cpu_s, 6),
        "events": view.cost.events,
        "share": round(view.share, 4),
        "state_bytes": view.state_bytes,
        "rows": view.rows,
        "over_budget": over,
        "cache_hits": None if view.cache_hits is None else round(view.cache_hits, 4),
    }
