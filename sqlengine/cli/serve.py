"""`sql serve`: the server, in this process."""

from __future__ import annotations

from math import inf
from pathlib import Path

import click

from sqlengine.broker.auto_create import AutoCreate
from sqlengine.cli.limits import limit_option, use_limits
from sqlengine.cli.options import pairs, spark_options
from sqlengine.cli.values import DURATION, SIZE
from sqlengine.config import (
    Cluster,
    Config,
    InstancesOn,
    QueryLimits,
    Target,
    data_folder,
    function_limits,
    token_from,
)
from sqlengine.system.durability import Checkpoints, Delivery, Fsync


@click.command(short_help="Run the server.")
@click.option("--data", help="Data folder (default: SQLENGINE_DATA, else ./data).")
@click.option(
    "--jobs",
    type=click.Path(path_type=Path),
    help="Watched folder of .sql files (default: DATA/jobs).",
)
@click.option(
    "--functions",
    type=click.Path(path_type=Path),
    help="Folder of Python modules (default: DATA/functions).",
)
@click.option(
    "--uploads", is_flag=True, help="Requests may bring Python modules with a job's text."
)
@click.option(
    "--function-seconds",
    type=click.FloatRange(0.01),
    help="Time of a user's function for a row (default: 1).",
)
@click.option(
    "--function-memory",
    type=click.IntRange(1),
    help="Memory of a module of users, in MB (default: 512).",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Others than this machine need a token."
)
@click.option(
    "--port",
    default=8083,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes a free one.",
)
@click.option(
    "--flight-port",
    type=click.IntRange(0, 65535),
    help="Port of Arrow Flight SQL (default: none; 0 takes a free one).",
)
@click.option(
    "--token-file", help="File with the token that requests must carry (or SQLENGINE_TOKEN)."
)
@click.option(
    "--access",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of principals and what each may do ('sql access'), in place of one token.",
)
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help="Local socket (default: DATA/server.sock), for this user and those of --access.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificate of the port, which then speaks https; read again when it changes.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Key of that certificate.",
)
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Authorities: clients must show a certificate that one of them has signed.",
)
@click.option(
    "--fsync",
    type=click.Choice(["none", "interval", "epoch"]),
    default="none",
    show_default=True,
    help="When files are forced to disk: 'none' is safe while the machine has power.",
)
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "at-least-once"]),
    default="exactly-once",
    show_default=True,
    help="Whether a crash may give rows a second time.",
)
@click.option(
    "--checkpoints",
    type=click.Choice(["rocksdb", "topic"]),
    default="rocksdb",
    show_default=True,
    help="Where checkpoints are kept.",
)
@click.option(
    "--instances",
    "processes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Processes that run jobs in parts, where they can be divided.",
)
@click.option(
    "--parts",
    type=click.IntRange(1, 128),
    help=(
        "Parts that instances share out; fixed when they first start (default: one for each, two at"
        " least)."
    ),
)
@click.option(
    "--instances-on",
    type=click.Choice(["processes", "spark"]),
    default="processes",
    show_default=True,
    help="Instances are processes of this machine, or run in long-running tasks of Spark.",
)
@click.option(
    "--instances-host",
    default="127.0.0.1",
    show_default=True,
    help="Address of this machine at which instances on Spark reach the server.",
)
@click.option(
    "--instances-port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of that address; 0 takes a free one.",
)
@click.option(
    "--batch-size", type=click.IntRange(1), default=4096, show_default=True, help="Rows a read."
)
@click.option(
    "--latency-target",
    type=DURATION,
    default="10ms",
    show_default=True,
    help="Rows that come within this time after others may wait to share their work; none: never.",
)
@click.option(
    "--client-rate",
    type=SIZE,
    help="What a client may append to topics a second, such as 10MB (default: any).",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder on another disk to which shards of topics may be moved; may be repeated.",
)
@click.option(
    "--files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder below which tables may have files, besides DATA/files; may be repeated.",
)
@click.option(
    "--hosts",
    multiple=True,
    help="Host to which tables may connect over HTTP and syslog (*.example.com, 10.1.0.0/16); may"
    " be repeated (default: any).",
)
@click.option(
    "--secrets",
    type=click.Path(exists=True, path_type=Path),
    help="File of NAME=VALUE, or folder with a file a name, for ${secret:NAME} in options.",
)
@click.option(
    "--secrets-command",
    metavar="COMMAND",
    help="Program that prints a secret, such as 'pass show {name}', for ${secret:NAME}.",
)
@click.option(
    "--savepoints",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder in which savepoints may be, besides DATA/savepoints; may be repeated.",
)
@click.option(
    "--broker",
    metavar="rocketmq://HOST:PORT",
    help="Name servers of RocketMQ 5, separated by ;. Topics of users and of commands are there"
    " (default: in the data folder).",
)
@click.option(
    "--topic-auto-create/--no-topic-auto-create",
    default=True,
    show_default=True,
    help="Create topics that the tables of jobs name, where they are missing.",
)
@click.option(
    "--topic-shards",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Shards of topics that are created for jobs.",
)
@click.option(
    "--topic-retention",
    type=DURATION,
    default="7d",
    show_default=True,
    help="How long topics that are created for jobs keep records: 12h, 7d, or none (for ever).",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default of SET for all jobs, such as restart-strategy.type=none; may be repeated.",
)
@click.option(
    "--memory-limit",
    type=SIZE,
    help="State of all jobs, such as 512MB (80 % of the memory by default): above it the job with"
    " the most is stopped.",
)
@limit_option
@click.option(
    "--step-timeout",
    type=DURATION,
    default="1m",
    show_default=True,
    help="Time that a job's operators may take in one step, or none: then the job fails.",
)
@click.option(
    "--connector-timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    help="Time that a table's host or disk has to answer: then the jobs that use it fail.",
)
@click.option(
    "--queries",
    type=click.IntRange(0),
    default=QueryLimits.at_once,
    show_default=True,
    help="Ad-hoc queries that may run at once.",
)
@click.option(
    "--query-timeout",
    type=DURATION,
    default="1h",
    show_default=True,
    help="The longest that an ad-hoc query may run.",
)
@click.option(
    "--query-rows",
    type=click.IntRange(1),
    default=QueryLimits.rows_per_second,
    show_default=True,
    help="Rows that ad-hoc queries together may read a second.",
)
@click.option(
    "--target",
    type=click.Choice(["embedded", "spark"]),
    default="embedded",
    show_default=True,
    help="Where the operators of jobs run that say nothing else: in this process, or on Spark.",
)
@spark_options
@click.option(
    "--families/--no-families",
    default=True,
    show_default=True,
    help="Run equal operations of many jobs as one.",
)
@click.option(
    "--isolation/--no-isolation",
    default=True,
    show_default=True,
    help="Move jobs that slow others down into graphs of their own, and merge them again.",
)
def serve(
    data: str | None,
    jobs: Path | None,
    functions: Path | None,
    uploads: bool,
    function_seconds: float | None,
    function_memory: int | None,
    host: str,
    port: int,
    flight_port: int | None,
    token_file: str | None,
    access: Path | None,
    socket: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    fsync: Fsync,
    delivery: Delivery,
    checkpoints: Checkpoints,
    processes: int,
    parts: int | None,
    instances_on: InstancesOn,
    instances_host: str,
    instances_port: int,
    batch_size: int,
    latency_target: int | None,
    client_rate: int | None,
    volumes: tuple[Path, ...],
    files: tuple[Path, ...],
    hosts: tuple[str, ...],
    secrets: Path | None,
    secrets_command: str | None,
    savepoints: tuple[Path, ...],
    broker: str | None,
    topic_auto_create: bool,
    topic_shards: int,
    topic_retention: int | None,
    settings: tuple[str, ...],
    memory_limit: int | None,
    limits: tuple[str, ...],
    step_timeout: int | None,
    connector_timeout: int | None,
    queries: int,
    query_timeout: int | None,
    query_rows: int,
    target: Target,
    master: str | None,
    spark_conf: tuple[str, ...],
    families: bool,
    isolation: bool,
) -> None:
    """Run the server: REST, watched folder, command topic, broker."""
    if instances_on == "spark" and not processes:
        raise click.UsageError("--instances-on spark says where: --instances says how many")
    if target == "spark" and processes and instances_on != "spark":
        raise click.UsageError(
            "--target spark has workers of its own: leave out --instances, or --instances-on spark"
        )
    from sqlengine.system.memory import importing

    with importing():
        from sqlengine.service import serve as run_server

    use_limits(limits)
    token = token_from(token_file)
    folder = data_folder(data)
    config = Config(
        data=folder,
        jobs=jobs,
        functions=functions,
        uploads=uploads,
        function_limits=function_limits(function_seconds, function_memory),
        fsync=fsync,
        delivery=delivery,
        settings=_settings(settings),
        broker=broker,
        auto_create=_auto_create(topic_auto_create, topic_shards, topic_retention, broker),
        checkpoints=checkpoints,
        instances=processes,
        parts=parts,
        instances_on=instances_on,
        instances_host=instances_host,
        instances_port=instances_port,
        host=host,
        port=port,
        flight_port=flight_port,
        token=token,
        access=access,
        socket=socket,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        rows_per_read=batch_size,
        latency_target_s=(latency_target or 0) / 1000,
        client_rate=client_rate or None,
        volumes=volumes,
        files=files,
        hosts=hosts or None,
        secrets=secrets,
        secrets_command=secrets_command,
        savepoints=savepoints,
        memory_limit=memory_limit or None,
        step_timeout_s=step_timeout / 1000 if step_timeout else None,
        connector_timeout_s=connector_timeout / 1000 if connector_timeout else inf,
        families=families,
        isolation=isolation,
        target=target,
        cluster=Cluster(master, pairs("--spark-conf", spark_conf)),
        queries=QueryLimits(
            at_once=queries,
            timeout_s=inf if query_timeout is None else query_timeout / 1000,
            rows_per_second=query_rows,
        ),
    )
    run_server(config)


def _auto_create(
    wanted: bool, shards: int, retention: int | None, broker: str | None
) -> AutoCreate:
    """Returns the defaults of new topics. UsageError for a retention that was asked for where they
    are in RocketMQ."""
    if broker is None:
        return AutoCreate(wanted, wanted, shards, retention)
    source = click.get_current_context().get_parameter_source("topic_retention")
    if source is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError(
            "--topic-retention is for topics in the data folder: RocketMQ keeps messages as"
            " 'fileReservedTime' of its brokers says"
        )
    return AutoCreate(wanted, wanted, shards, None)


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    """Returns the defaults of SET. Raises UsageError for one without a value, and SqlError for a
    value of a restart strategy that is none."""
    from sqlengine.jobs.restart_strategy import strategy_in

    settings = pairs("--set", given)
    strategy_in(settings)
    return settings
