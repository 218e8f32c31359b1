"""/api/v1/spark: where Spark runs, and how the graphs do that run there."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from sqlengine.engine import Engine
from sqlengine.engine.views.spark_views import spark_graphs
from sqlengine.executors.spark.progress import SparkProgress
from sqlengine.graphs.managed import ManagedGraph


def spark_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine."""
    blueprint = Blueprint("spark", __name__, url_prefix="/api/v1/spark")

    @blueprint.get("")
    def show() -> Response:
        """Shows the session of Spark, null before one has started, and the graphs there."""
        view, by_name = engine.spark(), dict(engine.graphs.by_name)
        session = None if view is None else vars(view)
        graphs = spark_graphs(by_name.values()).items()
        steps = {step.graph: str(step) for step in engine.slow_steps()}
        listed = [_graph_json(by_name[name], done, steps.get(name)) for name, done in graphs]
        return jsonify({"session": session, "graphs": listed})

    return blueprint


def _graph_json(
    graph: ManagedGraph, progress: SparkProgress, step: str | None
) -> dict[str, object]:
    """Returns what a graph did since it was opened, as JSON; `step`: the long one that it is in."""
    epochs, written = progress.epochs, progress.written
    return {
        "graph": graph.name,
        "jobs": len(graph.runner.jobs),
        "epochs": epochs,
        "repeated": progress.repeated,
        "last_epoch_s": round(progress.last_s, 3),
        "mean_epoch_s": round(progress.seconds / epochs, 3) if epochs else 0.0,
        "partitions": progress.partitions,
        "tasks": progress.tasks,
        "task_retries": progress.retries,
        "cpu_s": round(progress.cpu_s, 3),
        "state_files": written["files"],
        "state_bytes": written["bytes"],
        "step": step,
        "problem": graph.loop.problem,
    }
