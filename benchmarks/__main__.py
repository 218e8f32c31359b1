"""`python -m benchmarks [NAME…]`: measures, prints tables, and writes them into
docs/benchmarks.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

from benchmarks import (
    access,
    backtest,
    broker,
    changes,
    clients,
    connections,
    delivery,
    dimensions,
    dimensions_others,
    edge,
    epochs,
    families,
    families_live,
    footprint,
    formats,
    functions,
    instances,
    kept_connections,
    kernels,
    kernels_flink,
    lineage,
    mixed,
    moves,
    parquet_filter,
    placed,
    planning,
    polling,
    rule_cost,
    rule_tests,
    rules_gen,
    rules_real,
    rules_real_flink,
    shadow,
    spark,
    spark_changes,
    spark_queries,
    spark_streaming,
    state,
)
from benchmarks.connectors import databases as connectors_databases
from benchmarks.connectors import http as connectors_http
from benchmarks.connectors import kafka as connectors_kafka
from benchmarks.connectors import mariadb as connectors_mariadb
from benchmarks.connectors import mqtt as connectors_mqtt
from benchmarks.connectors import rocketmq as connectors_rocketmq
from benchmarks.nexmark import compare as nexmark
from benchmarks.page import Section, show, write
from sqlengine.system.memory import own_process

BENCHMARKS: dict[str, Callable[[], Section]] = {
    "rules_real": rules_real.run,
    "rules_real_flink": rules_real_flink.run,
    "rule_cost": rule_cost.run,
    "rule_tests": rule_tests.run,
    "rules_gen": rules_gen.run,
    "rules_gen_flink": rules_gen.run_flink,
    "access": access.run,
    "backtest": backtest.run,
    "broker": broker.run,
    "changes": changes.run,
    "clients": clients.run,
    "polling": polling.run,
    "connections": connections.run,
    "kept_connections": kept_connections.run,
    "connectors_databases": connectors_databases.run,
    "connectors_http": connectors_http.run,
    "connectors_kafka": connectors_kafka.run,
    "connectors_mariadb": connectors_mariadb.run,
    "connectors_mqtt": connectors_mqtt.run,
    "connectors_rocketmq": connectors_rocketmq.run,
    "delivery": delivery.run,
    "dimensions": dimensions.run,
    "dimensions_others": dimensions_others.run,
    "edge": edge.run,
    "epochs": epochs.run,
    "families": families.run,
    "families_live": families_live.run,
    "families_flink": families_live.run_flink,
    "footprint": footprint.run,
    "formats": formats.run,
    "functions": functions.run,
    "instances": instances.run,
    "lineage": lineage.run,
    "mixed": mixed.run,
    "moves": moves.run,
    "parquet_filter": parquet_filter.run,
    "placed": placed.run,
    "planning": planning.run,
    "shadow": shadow.run,
    "spark": spark.run,
    "spark_changes": spark_changes.run,
    "spark_queries": spark_queries.run,
    "spark_streaming": spark_streaming.run,
    "state": state.run,
    "kernels": kernels.run,
    "kernels_flink": kernels_flink.run,
    "nexmark": nexmark.run,
    "nexmark_flink": nexmark.run_flink,
}
# Needs a Java (and `make setup-spark`), or minutes: only by name.
NOT_BY_DEFAULT = frozenset(
    {
        "connectors_kafka",
        "connectors_rocketmq",
        "dimensions_others",
        "rules_gen_flink",
        "rules_real_flink",
        "families_flink",
        "kernels_flink",
        "mixed",
        "nexmark_flink",
        "parquet_filter",
        "placed",
        "rule_cost",
        "spark",
        "spark_changes",
        "spark_queries",
        "spark_streaming",
    }
)


def chosen(names: Sequence[str]) -> list[str]:
    """Returns the benchmarks of these names, in order: all quick ones where there is no name, and for
    the first word of several all of them, as `connectors` for `connectors_kafka`. KeyError for a name
    that stands for none."""
    found: list[str] = []
    for name in names:
        members = (
            [name] if name in BENCHMARKS else [n for n in BENCHMARKS if n.startswith(f"{name}_")]
        )
        if not members:
            raise KeyError(name)
        found += [n for n in members if n not in found]
    return found or [n for n in BENCHMARKS if n not in NOT_BY_DEFAULT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(BENCHMARKS)}, or the first word of several, such as connectors"
        " (default: all quick ones)",
    )
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")
    options = parser.parse_args()
    try:
        names = chosen(options.names)
    except KeyError as error:
        parser.error(f"there is no benchmark {error}; there are {', '.join(BENCHMARKS)}")
    if len(names) > 1:  # each in a process of its own: memory is measured, too
        dry = ["--dry"] if options.dry else []
        sys.exit(
            max(
                subprocess.run([sys.executable, "-m", "benchmarks", n, *dry]).returncode
                for n in names
            )
        )
    with own_process():
        section = BENCHMARKS[names[0]]()
    show(section)
    if not options.dry:
        write(section)


if __name__ == "__main__":
    main()
