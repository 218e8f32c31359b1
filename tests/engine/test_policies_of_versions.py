"""What is registered of job versions is forgotten with them; a recovery registers it anew."""

from __future__ import annotations

from pathlib import Path

from sqlengine.config import Config
from tests.engine.by_hand import EVENTS, append, die, of_job, open_engine, step

RULE = """
SET 'job.step-timeout' = '{} s'; SET 'memory.limit' = '{}mb'; SET 'job.on-error' = 'fail';
INSERT INTO outs SELECT '{}', id + {} FROM events
"""


def test_limits_of_versions_that_run_no_more_are_forgotten(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    registry, steps, memory = engine._registry, engine._steps, engine._registry.memory
    engine.submit("tables", EVENTS)
    default = Config(data=tmp_path).step_timeout_s
    assert (steps.shortest(), memory.must_measure) == (default, False)
    for number in range(1, 6):
        engine.submit("rule", RULE.format(number, number, "rule", number))
        append(engine, 10 * number)
        step(engine)
        assert steps.shortest() == max(1, number - 1)  # that of the version before is kept
    engine.submit("rule", RULE.format(6, 6, "rule", 6))
    version = engine.job("rule").version
    known = {v for v in range(version + 1) if memory.limit_of("rule", v) is not None}
    assert known == {v for v in range(version + 1) if registry.policies.fails_on_error("rule", v)}
    assert known == {version - 1, version}
    die(engine)
    # Older versions are repeated, each with its own limits.
    engine = open_engine(tmp_path)
    registry, steps, memory = engine._registry, engine._steps, engine._registry.memory
    assert of_job(engine, "rule") == [10 * n + n for n in range(1, 6)]
    assert (steps.timeout_of("rule", version), memory.limit_of("rule", version)) == (6, 6 << 20)
    assert registry.policies.fails_on_error("rule", version)
    engine.isolate("rule")
    graph = engine.job("rule").graph
    engine._steps.watch()
    assert graph in engine.slow_step_counts()
    engine.remove("rule")
    assert (steps.shortest(), memory.must_measure) == (default, False)
    assert not registry.policies.fails_on_error("rule", version)
    assert engine.slow_step_counts().keys() == {"main"}
    engine.close()
