"""The command topic: changes of jobs as records on the broker, with answers under the same id.

A command is JSON: {"id", "op": "submit | remove | start | stop | rollback", "name", "sql", "version", "take_over"}."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from parser.errors import JobError, SqlError
from sqlengine.broker.base import Broker
from sqlengine.changes import Outcome
from sqlengine.engine import Engine
from sqlengine.jobs import Origin

COMMANDS = "_commands"
RESULTS = "_command_results"
GROUP = "_commands"
log = logging.getLogger("sqlengine.commands")


class Command(msgspec.Struct, frozen=True):
    """One command, as it stands in the topic."""

    id: str
    op: str
    name: str = ""
    sql: str = ""
    version: int = 0
    take_over: bool = False


class CommandIntake:
    """Takes commands in a thread of its own. A command is committed after it is carried out: after a crash in between
    it is carried out again, which changes nothing (the same text again is 'unchanged')."""

    def __init__(self, engine: Engine, describe: Callable[[SqlError], dict[str, object]]) -> None:
        self._engine = engine
        self._broker: Broker = engine.broker
        self._describe = describe
        self._stopping = threading.Event()
        self._broker.create_topic(COMMANDS, compacted=True, if_not_exists=True)
        self._broker.create_topic(RESULTS, compacted=True, if_not_exists=True)
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        offset = self._broker.committed(GROUP, COMMANDS).get(0, 0)
        while not self._stopping.is_set():
            records = self._broker.read(COMMANDS, 0, max(offset, self._broker.begin_offset(COMMANDS, 0)))
            if records is None:
                self._broker.wait_for_data(0.2)
                continue
            for value in records.values.to_pylist():
                if value is not None:
                    self._carry_out(value)
            offset = records.next_offset
            self._broker.commit(GROUP, COMMANDS, {0: offset})

    def _carry_out(self, value: bytes) -> None:
        identity = "unreadable"
        try:
            command = msgspec.json.decode(value, type=Command)
            identity = command.id
            outcome = _perform(self._engine, command)
            answer: dict[str, object] = {"id": identity, "status": outcome.status, "version": outcome.version}
        except SqlError as error:
            answer = {"id": identity, "status": "refused", "error": self._describe(error)}
        except msgspec.MsgspecError as error:
            refusal = JobError("the record is no command", detail=str(error))
            answer = {"id": identity, "status": "refused", "error": self._describe(refusal)}
        data = msgspec.json.encode(answer)
        self._broker.append(RESULTS, 0, [data], keys=[identity.encode()], timestamp_ms=self._engine.now_ms())


def _perform(engine: Engine, command: Command) -> Outcome:
    match command.op:
        case "submit":
            return engine.submit(command.name, command.sql, Origin.TOPIC, take_over=command.take_over)
        case "remove":
            return engine.remove(command.name, Origin.TOPIC, take_over=command.take_over)
        case "start":
            return engine.start_job(command.name)
        case "stop":
            return engine.stop_job(command.name)
        case "rollback":
            return engine.rollback(command.name, command.version, Origin.TOPIC, take_over=command.take_over)
    raise JobError(f"unknown command '{command.op}'", hint="submit, remove, start, stop or rollback")
