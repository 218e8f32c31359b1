"""The command topic: changes of jobs as records on the broker, with answers under the same id.

A command is JSON: {"id", "op", "name", "sql", "version", "savepoint", "drain"}; which
of them an op needs stands in `OPS`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from parser.errors import JobError, ServiceError, SqlError
from sqlengine.access.actor import Actor, acting
from sqlengine.access.audit.log import NO_AUDIT, Audit, Event
from sqlengine.broker.errors import BrokerAway
from sqlengine.broker.topic_access import COMMANDS, RESULTS
from sqlengine.connectors.plain_secrets import masked
from sqlengine.control.sealed_commands import command_texts
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, begin_of
from sqlengine.jobs.job import Origin
from sqlengine.jobs.targets import target_of
from sqlengine.system.threads import THREADS, Background, Repeated

GROUP = "_commands"
RETRY_S = 0.5
AWAY_S = 2.0
HOLD_S: Final = 10.0
# Commands and answers older than this go; the history of jobs is in the job log, and stays.
RETENTION_MS = 7 * 24 * 3600 * 1000
log = logging.getLogger("sqlengine.commands")

Answer: TypeAlias = dict[str, object]
_PEER: Final = "command topic"
# Commands that change nothing.
_LOOKS: Final = frozenset({"validate", "list", "history"})


class Command(msgspec.Struct, frozen=True):
    """A record of the command topic.

    `savepoint`: the path to start from; for `stop` and `savepoint` the folder for a new one, '' for
    the default one. `drain`: `stop` fires all windows first, and writes a savepoint. `begin`:
    where `start` begins, if not where the job was. `sealed`: what the server adds to a text with
    passwords (`sqlengine.control.sealed_commands`). `target`: where a job that is
    submitted or moved runs.
    """

    id: str
    op: str
    name: str = ""
    sql: str = ""
    version: int = 0
    savepoint: str | None = None
    drain: bool = False
    begin: str | None = msgspec.field(default=None, name="from")
    sealed: str = ""
    target: str = ""


class CommandIntake(Background):
    """Executes commands in a thread of its own.

    A command is committed after it was executed. After a crash in between it is executed again,
    which changes nothing (the same text is 'unchanged'). Without disk space for the answer the
    intake waits until there is some.
    """

    def __init__(
        self,
        engine: Engine,
        describe: Callable[[SqlError], dict[str, object]],
        audit: Audit = NO_AUDIT,
    ) -> None:
        super().__init__("commands")
        self._audit = audit
        self._engine = engine
        self._done: list[str] = []
        self._broker = engine.broker
        self._hold: Repeated | None = None
        self._held = True
        self._away = ""  # why nothing can be read, as it was logged
        self._describe = describe
        self._texts = command_texts(engine.config)
        self._texts.drop_older(RETENTION_MS / 1000)
        for name in (COMMANDS, RESULTS):
            self._broker.create_topic(name, retention_ms=RETENTION_MS, if_not_exists=True)
        if not self._broker.hold(COMMANDS):
            raise _taken()

    def start(self) -> None:
        self._hold = THREADS.every("holds commands", HOLD_S, self._keep_held)
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._hold is not None:
            self._hold.stop()

    def _keep_held(self) -> None:
        """Goes on to hold the topic, also while a command takes long."""
        try:
            self._is_held()
        except BrokerAway:
            pass  # nothing can be read, either
        except Exception:
            log.exception("nobody knows whether another server executes commands")

    def _is_held(self) -> bool:
        """Returns True if no other server executes the commands of this topic."""
        held = self._broker.hold(COMMANDS)
        if held != self._held:
            self._held = held
            if held:
                log.warning("commands are executed again: the other server is gone")
            else:
                log.error("commands wait: %s", _taken().with_hint)
        return held

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._execute_all()
            except BrokerAway as error:
                if str(error) != self._away:
                    self._away = str(error)
                    log.warning("commands wait: %s", error)
                self._stopping.wait(AWAY_S)
            except Exception:
                log.exception("commands cannot be read, it will be tried again")
                self._stopping.wait(RETRY_S)

    def _execute_all(self) -> None:
        offset = self._broker.committed(GROUP, COMMANDS).get(0, 0)
        while not self._stopping.is_set():
            begin = self._broker.begin_offset(COMMANDS, 0)
            if self._away:
                self._away = ""
                log.warning("commands are executed again")
            if offset < begin:
                log.warning("%d commands were not executed: they waited too long", begin - offset)
                offset = begin
            records = self._broker.read(COMMANDS, 0, offset)
            if records is None:
                self._broker.wait_for_data(0.2)
                continue
            if not self._is_held():
                self._stopping.wait(AWAY_S)
                continue
            for at, value in zip(records.offsets.tolist(), records.values.to_pylist(), strict=True):
                while not self._audit.ready():
                    if self._stopping.wait(RETRY_S):
                        return
                if value is not None:
                    self._execute(value)
                self._broker.commit(GROUP, COMMANDS, {0: at + 1})
                self._texts.drop(self._done)
                self._done.clear()
            offset = records.next_offset

    def _unsealed(self, value: bytes) -> Command:
        """Returns a command with the text that was kept for it."""
        command = msgspec.json.decode(value, type=Command)
        kept = self._texts.get(command.sealed) if command.sealed else None
        if kept is None:
            return command
        self._done.append(command.sealed)
        return msgspec.structs.replace(command, sql=kept[0])

    def _execute(self, value: bytes) -> None:
        identity, command = _identity(value), None
        try:
            command = self._unsealed(value)
            what = _request(command)
            with acting(Actor(Origin.TOPIC.value, _PEER, what)):
                answer = _perform(self._engine, command)
        except SqlError as error:
            answer = {"status": "refused", "error": self._describe(error)}
        except msgspec.MsgspecError as error:
            refusal = JobError(
                "the record is no command", detail=str(error), hint=f"op is one of {', '.join(OPS)}"
            )
            answer = {"status": "refused", "error": self._describe(refusal)}
        except Exception:
            log.exception("command %s failed", identity)
            fault = ServiceError(
                f"internal error in command '{identity}'", detail="the server's log has the trace"
            )
            answer = {"status": "refused", "error": self._describe(fault)}
        if command is not None and command.op not in _LOOKS:
            self._audit.write([_event(command, answer)])
        data = msgspec.json.encode({"id": identity, **answer})
        self._broker.append(
            RESULTS, 0, [data], keys=[identity.encode()], timestamp_ms=self._engine.now_ms()
        )


def _taken() -> ServiceError:
    return ServiceError(
        "another server executes the commands of this topic",
        detail="each server of a cluster of RocketMQ executes all commands that it reads",
        hint="give this one a topic of its own: --broker 'rocketmq://…?commands=NAME'. One "
        "that was killed leaves its topic free after a minute",
    )


def _event(command: Command, answer: Answer) -> Event:
    """Returns what the audit log has of a command; who appended it stands in a line of its own."""
    refused, version = answer["status"] == "refused", answer.get("version")
    return Event(
        "",
        _PEER,
        _request(command),
        command.name,
        version if isinstance(version, int) else 0,
        "refused" if refused else "done",
        msgspec.json.encode(answer.get("error")).decode() if refused else str(answer["status"]),
    )


def _request(command: Command) -> str:
    return f"command {command.op[:60]} ({command.id[:60]})"


def _identity(value: bytes) -> str:
    """Returns the id of a record even if it is no command, so that its sender gets the error."""
    try:
        record = msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return "unreadable"
    identity = record.get("id") if isinstance(record, dict) else None
    return identity if isinstance(identity, str) else "unreadable"


def _perform(engine: Engine, command: Command) -> Answer:
    if command.op not in OPS:
        raise JobError(f"unknown command '{command.op[:60]}'", hint=f"one of {', '.join(OPS)}")
    return OPS[command.op](engine, command)


def _submit(engine: Engine, command: Command) -> Answer:
    path, target = command.savepoint, target_of(command.target) if command.target else None
    return _answer(
        engine.submit(command.name, command.sql, Origin.TOPIC, savepoint=path, target=target)
    )


def _move(engine: Engine, command: Command) -> Answer:
    return _answer(engine.move(command.name, target_of(command.target)))


def _validate(engine: Engine, command: Command) -> Answer:
    return _answer(engine.validate(command.name, command.sql, Origin.TOPIC))


def _start(engine: Engine, command: Command) -> Answer:
    return _answer(engine.start_job(command.name, command.savepoint, begin_of(command.begin)))


def _stop(engine: Engine, command: Command) -> Answer:
    if command.drain:
        return _answer(engine.drain_job(command.name, command.savepoint or None))
    if command.savepoint is None:
        return _answer(engine.stop_job(command.name))
    return _answer(engine.save_job(command.name, command.savepoint or None, stop=True))


def _save(engine: Engine, command: Command) -> Answer:
    return _answer(engine.save_job(command.name, command.savepoint or None))


def _remove(engine: Engine, command: Command) -> Answer:
    return _answer(engine.remove(command.name, Origin.TOPIC))


def _rollback(engine: Engine, command: Command) -> Answer:
    return _answer(engine.rollback(command.name, command.version, Origin.TOPIC))


def _promote(engine: Engine, command: Command) -> Answer:
    return _answer(engine.promote(command.name, Origin.TOPIC))


def _list(engine: Engine, command: Command) -> Answer:
    jobs = [{"name": j.name, "version": j.version, "state": j.state.value} for j in engine.jobs()]
    return {"status": "listed", "jobs": jobs}


def _history(engine: Engine, command: Command) -> Answer:
    versions = [{"version": v.version, "sql": masked(v.sql)} for v in engine.history(command.name)]
    return {"status": "listed", "name": command.name, "versions": versions}


def _answer(outcome: Outcome) -> Answer:
    body: Answer = {"name": outcome.name, "status": outcome.status, "version": outcome.version}
    if outcome.savepoint is not None:
        body["savepoint"] = outcome.savepoint
    if outcome.state:
        body["state"] = [
            {"operator": s.operator, "outcome": s.outcome, "reason": s.reason}
            for s in outcome.state
        ]
    if outcome.dependents:
        body["dependents"] = [_answer(o) for o in outcome.dependents]
    return body


OPS: Mapping[str, Callable[[Engine, Command], Answer]] = MappingProxyType(
    {
        "submit": _submit,  # name, sql, savepoint, target
        "validate": _validate,  # name, sql: what submit would do
        "remove": _remove,  # name
        "start": _start,  # name, savepoint, from
        "stop": _stop,  # name, savepoint, drain
        "isolate": lambda engine, command: _answer(engine.isolate(command.name)),  # name
        "merge": lambda engine, command: _answer(engine.merge(command.name)),  # name
        "move": _move,  # name, target
        "savepoint": _save,  # name, savepoint
        "rollback": _rollback,  # name, version
        "promote": _promote,  # name
        "list": _list,
        "history": _history,  # name
    }
)
