"""The expressions of the benchmark: all can be evaluated, and every documented function that Flink
has is in one."""

from __future__ import annotations

from benchmarks.kernels import cases
from benchmarks.kernels_data import batch
from planner.scalar import Call, walk
from sqlengine.expressions import evaluate
from udf.reference import entries

USUAL = 120
# Constants that are folded while a query is planned, and what asks for a class of Java or a
# watermark.
NO_COLUMN = {
    "E",
    "PI",
    "TYPEOF",
    "CURRENT_DATABASE",
    "CURRENT_WATERMARK",
    "OBJECT_OF",
    "OBJECT_UPDATE",
}
# Flink has no function of this name.
EXTENSIONS = {"text.network", "text.log_parsing", "text.security_events", "casts.rule_heads"}
# The same kernel under another name, or written as another operator.
ALIKE = {
    "CHARACTER_LENGTH",
    "CEILING",
    "SUBSTR",
    "MOD",
    "NOW",
    "CURRENT_ROW_TIMESTAMP",
    "LOCALTIME",
} | {
    "IS UNKNOWN",
    "IS NOT UNKNOWN",
}


def test_all_are_evaluated_without_errors() -> None:
    rows = batch(200)
    failed = {
        c.text: v.errors.reason(int(v.errors.mask.argmax()))
        for c in cases()
        if (v := evaluate(c.bound(), rows)).errors
    }
    assert not failed


def test_every_function_of_flink_is_in_one() -> None:
    used = {node.function for c in cases() for node in walk(c.bound()) if isinstance(node, Call)}
    missing = [
        entry.names
        for entry in entries()
        if not used & set(entry.names)
        and entry.topic not in EXTENSIONS
        and not set(entry.names) & (NO_COLUMN | ALIKE)
    ]
    assert not missing


def test_so_many_are_usual() -> None:
    assert sum(c.usual for c in cases()) == USUAL
