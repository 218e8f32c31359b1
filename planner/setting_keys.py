"""The keys of SET and what becomes of each: it has an effect here, it is one of Flink's without any
effect, or it is refused.

A key that nobody reads is most often one that was misspelt, so it is an error unless the script
says that it was made for Flink: SET 'job.unknown-options' = 'ignore'."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from parser.errors import OptionError, UnsupportedError
from planner.optimizer import PASSES, PREFIX, disabled_passes
from planner.rule_settings import RULE_KEYS, check_rule_setting
from planner.settings import UNKNOWN_OPTIONS, one_of

# What the code reads: `tests/planner/test_setting_keys.py` compares them with it.
EFFECTIVE: Final = (
    frozenset(
        """
    execution.checkpointing.savepoint-dir
    execution.latency
    execution.runtime-mode
    execution.savepoint.ignore-unclaimed-state
    execution.savepoint.path
    execution.state-recovery.ignore-unclaimed-state
    execution.state-recovery.path
    execution.target
    job.budget.cpu-us-per-event
    job.budget.exceeded
    job.budget.state
    job.isolation
    job.isolation.calm
    job.isolation.commit-time
    job.isolation.cost
    job.isolation.error-rate
    job.isolation.lookup-time
    job.late-rows
    job.late-rows.table
    job.on-error
    job.state
    job.step-timeout
    job.unknown-options
    memory.limit
    pipeline.auto-watermark-interval
    restart-strategy
    restart-strategy.exponential-delay.attempts-before-reset-backoff
    restart-strategy.exponential-delay.backoff-multiplier
    restart-strategy.exponential-delay.initial-backoff
    restart-strategy.exponential-delay.jitter-factor
    restart-strategy.exponential-delay.max-backoff
    restart-strategy.exponential-delay.reset-backoff-threshold
    restart-strategy.failure-rate.delay
    restart-strategy.failure-rate.failure-rate-interval
    restart-strategy.failure-rate.max-failures-per-interval
    restart-strategy.fixed-delay.attempts
    restart-strategy.fixed-delay.delay
    restart-strategy.type
    state.savepoints.dir
    table.exec.emit.allow-lateness
    table.exec.emit.early-fire.delay
    table.exec.emit.early-fire.enabled
    table.exec.emit.late-fire.delay
    table.exec.emit.late-fire.enabled
    table.exec.interval-join.min-cleanup-interval
    table.exec.mini-batch.enabled
    table.exec.sink.nested-constraint-enforcer
    table.exec.sink.not-null-enforcer
    table.exec.sink.require-on-conflict
    table.exec.sink.type-length-enforcer
    table.exec.sink.upsert-materialize
    table.exec.source.cdc-events-duplicate
    table.exec.source.idle-timeout
    table.exec.source.max-future
    table.exec.state.ttl
    table.local-time-zone
    table.optimizer.agg-phase-strategy
    table.optimizer.source.predicate-pushdown-enabled
    """.split()
    )
    | RULE_KEYS
    | {PREFIX + p.__name__.replace("_", "-") for p in PASSES}
)

# Keys of Flink that change results there: its default (in lower case) is what happens here, and any
# other value is refused.
_DEFAULT_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "table.builtin-catalog-name": ("default_catalog",),
    "table.builtin-database-name": ("default_database",),
    "table.column-expansion-strategy": ("",),
    "table.dynamic-table-options.enabled": ("true",),
    "table.exec.legacy-cast-behaviour": ("disabled",),
    "table.exec.sort.default-limit": ("-1",),
    "table.legacy-nested-row-nullability": ("false",),
    "table.rtas-ctas.atomicity-enabled": ("false",),
    "table.sql-dialect": ("default",),
}

# Keys of Flink 2.3 about how it runs a plan; beside them are keys with an effect, so that each is
# named: a misspelt one is not taken for one of these.
_GROUPS: Final[Mapping[str, str]] = {
    "execution.": """
        allow-client-job-configurations attached job-listeners job-status-changed-listeners
        program-config.enabled program-config.wildcards savepoint-restore-mode
        shutdown-on-application-finish shutdown-on-attached-exit
        state-recovery.approximate-local-recovery state-recovery.claim-mode
        state-recovery.from-local state-recovery.without-channel-state.checkpoint-id
        submit-failed-job-on-application-error target
        terminate-application-on-any-job-terminated-exceptionally
    """,
    "execution.checkpointing.": """
        aligned-checkpoint-timeout alignment-timeout approximate-local-recovery
        checkpoints-after-tasks-finish checkpoints-after-tasks-finish.enabled
        cleaner.parallel-mode create-subdir data-inline-threshold dir during-recovery.enabled
        externalized-checkpoint-retention incremental interval interval-during-backlog
        local-backup.dirs local-backup.enabled max-concurrent-checkpoints min-pause mode
        num-retained recover-without-channel-state.checkpoint-id snapshot-compression storage
        timeout tolerable-failed-checkpoints write-buffer-size
    """,
    "parallelism.": "default",
    "pipeline.": """
        auto-generate-uids cached-files cep.sharedbuffer.cache.entry-slots
        cep.sharedbuffer.cache.event-slots cep.sharedbuffer.cache.statistics-interval classpaths
        closure-cleaner-level force-avro force-kryo force-kryo-avro generic-types
        global-job-parameters jars jobvertex-parallelism-overrides max-parallelism name
        object-reuse operator-chaining
        operator-chaining.chain-operators-with-different-max-parallelism
        operator-chaining.enabled serialization-config sources.pause-until-first-checkpoint
        vertex-description-mode vertex-name-include-index-prefix
        watermark-alignment.allow-unaligned-source-splits watermark-alignment.buffer-size
    """,
    "table.": """
        catalog-modification.listeners catalog-store.kind display.max-column-width dml-sync
        generated-code.max-length generated-code.max-members resources.download-dir
        secret-store.kind
    """,
    "table.exec.": """
        deduplicate.insert-update-after-sensitive-enabled
        deduplicate.mini-batch.compact-changes-enabled disabled-operators
        mini-batch.allow-latency mini-batch.size operator-fusion-codegen.enabled
        rank.topn-cache-size simplify-operator-name-enabled sink.keyed-shuffle
        sink.rowtime-inserter sink.upsert-materialize-strategy.adaptive.threshold.high
        sink.upsert-materialize-strategy.adaptive.threshold.low
        sink.upsert-materialize-strategy.type sort.async-merge-enabled sort.max-num-file-handles
        uid.format uid.generation unbounded-over.version window-agg.buffer-size-limit
    """,
    "table.optimizer.": """
        adaptive-broadcast-join.strategy bushy-join-reorder-threshold delta-join.strategy
        distinct-agg.split.bucket-num distinct-agg.split.enabled dynamic-filtering.enabled
        incremental-agg-enabled join-reorder-enabled join.broadcast-threshold multi-join.enabled
        multiple-input-enabled non-deterministic-update.strategy ptf.max-tables
        reuse-optimize-block-with-digest-enabled reuse-sink-enabled reuse-source-enabled
        reuse-sub-plan-enabled source.aggregate-pushdown-enabled
        source.report-statistics-enabled
        sql2rel.project-merge.enabled union-all-as-breakpoint-enabled
    """,
}
_WITHOUT_EFFECT: Final = frozenset(
    prefix + key for prefix, keys in _GROUPS.items() for key in keys.split()
)

# No key below these has an effect here: processes, memory, storage and clients of Flink.
_FOREIGN: Final = tuple(
    """
    akka. blob. classloader. client. cluster. env. execution.async-state. execution.batch
    execution.buffer-timeout execution.checkpointing.file-merging.
    execution.checkpointing.unaligned execution.sort fs. heartbeat. high-availability
    jobmanager. jobstore. kubernetes. metrics. pekko. process. python. resourcemanager. rest.
    security. slotmanager. sql-client. sql-gateway. state.backend state.changelog.
    state.checkpoint state.latency-track. state.size-track. state.storage. table.exec.async-
    table.exec.delta-join. table.exec.local-hash-agg. table.exec.resource.
    table.exec.spill-compression. table.optimizer.runtime-filter.
    table.optimizer.skewed-join-optimization. table.plan. task. taskmanager. traces. web. yarn.
    """.split()
)


def check_setting(key: str, value: str, settings: Mapping[str, str]) -> str | None:
    """Checks the key of a SET, whose script has `settings` so far, and returns a note where it has
    no effect here. OptionError for an unknown key, UnsupportedError for a value that Flink has and
    this version has not."""
    if key.startswith(PREFIX):
        disabled_passes({key: value})
        return None
    if key in RULE_KEYS:
        check_rule_setting(key, value)
        return None
    if key in EFFECTIVE:
        one_of({**settings, key: value}, UNKNOWN_OPTIONS, _POLICIES)
        return None
    if key in _DEFAULT_ONLY:
        _check_default(key, value, _DEFAULT_ONLY[key])
        return None
    if key in _WITHOUT_EFFECT or key.startswith(_FOREIGN):
        return f"'{key}' has no effect here: it says how Flink runs a plan"
    if ignores_unknown(settings):
        return f"unknown setting '{key}' is ignored"
    raise unknown_setting(key)


def check_settings(settings: Mapping[str, str]) -> list[str]:
    """Checks the keys of settings that are given together, and returns the notes. OptionError,
    UnsupportedError as for `check_setting`."""
    notes = (check_setting(key, value, settings) for key, value in settings.items())
    return [note for note in notes if note is not None]


_POLICIES: Final = ("REFUSE", "IGNORE")


def ignores_unknown(settings: Mapping[str, str]) -> bool:
    """True if unknown settings and options are left out and noted. OptionError for an unknown
    value."""
    return one_of(settings, UNKNOWN_OPTIONS, _POLICIES) == "IGNORE"


def unknown_setting(key: str) -> OptionError:
    """Returns the error for a key that nobody reads, with what was probably meant."""
    near = get_close_matches(key.lower(), EFFECTIVE | _WITHOUT_EFFECT | set(_DEFAULT_ONLY), 1, 0.8)
    return OptionError(
        f"unknown setting '{key}'",
        detail=None if near else "docs/sql/settings.md lists all",
        hint=(
            f"did you mean '{near[0]}'?"
            if near
            else f"in a script made for Flink, SET '{UNKNOWN_OPTIONS}' = 'ignore' before it"
        ),
        subject=key,
    )


def check_reset(key: str, settings: Mapping[str, str]) -> None:
    """Checks the key of a RESET. OptionError for an unknown one that is not set either."""
    if key not in settings and key not in EFFECTIVE | _WITHOUT_EFFECT | set(_DEFAULT_ONLY):
        foreign = key.startswith(_FOREIGN)
        if not foreign and not ignores_unknown(settings):
            raise unknown_setting(key)


def _check_default(key: str, value: str, accepted: tuple[str, ...]) -> None:
    if value.strip().lower() not in accepted:
        raise UnsupportedError(
            f"'{key}' = '{value}' is not supported", hint=f"leave it at '{accepted[0]}'"
        )
