"""The server process: engine, HTTP, watched folder and command topic; SIGTERM stops it cleanly."""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from parser.errors import ServiceError
from sqlengine.access.access_file import AuditSettings
from sqlengine.access.audit.live import STARTED, STOPPED
from sqlengine.access.audit.log import FOLDER, NO_AUDIT, Audit, AuditLog, Event
from sqlengine.access.identity import Access, AccessFile
from sqlengine.api.access import access_of, admission
from sqlengine.api.app import create_app
from sqlengine.api.auditing import audited
from sqlengine.api.problems import describe
from sqlengine.api.server import HttpServer
from sqlengine.api.serving.certificates import TlsFiles
from sqlengine.api.serving.local_socket import LocalSocket, is_used
from sqlengine.api.starting import Gate
from sqlengine.broker.embedded import system_clock
from sqlengine.broker.errors import cannot_start
from sqlengine.config import LOOPBACK, Config
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.control.commands import CommandIntake
from sqlengine.control.folder_intake import FolderIntake
from sqlengine.engine import Engine
from sqlengine.engine.shadows.canaries import Verdict
from sqlengine.engine.upkeep import Upkeep
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.steps.limits import Steps
from sqlengine.jobs.trail import Trail
from sqlengine.queries.service import QueryService
from sqlengine.system.addresses import host_and_port
from sqlengine.system.memory import give_back, keep_for_reuse, own_process
from sqlengine.system.process import begin_log, raise_file_limit
from sqlengine.system.rights import concerns, keep_private
from sqlengine.system.threads import THREADS

if TYPE_CHECKING:
    from sqlengine.api.flight.server import FlightServer

log = logging.getLogger("sqlengine")
# Seconds that the process has to stop.
STOP_S: Final = 10.0
_LOOK_S: Final = 1.0  # between two looks for signals


class Service:
    """Owns everything that runs in a server process. `start` returns when it is ready; `stop` may
    be called twice."""

    def __init__(
        self, config: Config, steps: Steps | None = None, openings: Openings | None = None
    ) -> None:
        """Recovers the jobs; until `start` has returned, the server says how far it is, and takes
        removals of jobs. `steps`, `openings`: made by who wants to end what the recovery does."""
        check_address(config)
        config.secret_values.check()
        _warn_of_rights(config)
        self.config = config
        self._stopped = False
        steps = steps or Steps(config.step_timeout_s, THREADS.now)
        access = access_of(config)
        self._audit = self._log = _audit_of(config, access)
        admit = audited(admission(config, access), self._audit)
        self._gate = Gate(steps, admit, access)
        self._http = HttpServer(
            self._gate,
            config.host,
            config.port,
            admit=admit,
            tls=_tls_files(config),
            local=_local_socket(config),
        )
        self._http.start()
        log.info("listening on %s", self.url)
        try:
            self.engine = Engine(
                config,
                steps=steps,
                openings=openings,
                access=access,
                on_jobs_known=self._gate.attach,
                trail=self._trail,
            )
        except BaseException:
            self._http.stop()
            self._log.close([Event("", "server", STOPPED)])
            raise
        try:
            self._commands = CommandIntake(self.engine, describe, self._audit)
            self.engine.canaries.tell = partial(_audit_canary, self._audit)
            self.upkeep = Upkeep(self.engine)
            self._folder = FolderIntake(self.engine, config.jobs_folder, self._audit)
            if config.functions is None:  # `cp` would make a file of that name
                with suppress(OSError):  # a full disk is told elsewhere
                    config.functions_folder.mkdir(exist_ok=True)
            self._queries = QueryService(self.engine, self._audit)
            self._app = create_app(self.engine, self._folder, self._queries, admit, self._audit)
            self.flight = self._flight_server()
        except BaseException:
            self._http.stop()
            self.engine.close()
            self._log.close([Event("", "server", STOPPED)])
            raise

    def _flight_server(self) -> FlightServer | None:
        """Returns the server of Flight SQL, which listens; None where none is wanted."""
        if self.config.flight_port is None:
            return None
        from sqlengine.api.flight.server import FlightServer

        server = FlightServer(self.engine, self._queries, self.config, self._audit)
        log.info("Flight SQL on %s", host_and_port(self.config.host, server.port))
        return server

    def _trail(self) -> Trail | None:
        """Returns what tells the audit log of changes of jobs, once the data folder is locked. A
        server without principals has a log of these alone, and does without where it cannot be
        opened."""
        folder, sync = self.config.data / FOLDER, self.config.fsync != "none"
        if isinstance(self._audit, AuditLog):
            return Trail(self._audit.open(), folder)
        audit = AuditLog(folder, AuditSettings(), system_clock, sync=sync)
        audit.write([Event("", "server", STARTED)])
        try:
            self._log = audit.open()
        except OSError as error:
            log.warning("there is no audit log of changes of jobs: %s", error)
            return None
        return Trail(audit, folder)

    @property
    def port(self) -> int:
        """The port that it listens on: with 0 in the configuration, a free one."""
        return self._http.port

    @property
    def url(self) -> str:
        """The address of that port."""
        scheme = "http" if self.config.tls_certificate is None else "https"
        return f"{scheme}://{host_and_port(self.config.host, self.port)}"

    def start(self) -> None:
        self.engine.start()
        self._folder.start()
        self._commands.start()
        self.upkeep.start()
        self._gate.open(self._app)

    def stop(self) -> None:
        """Accepts no more requests, ends the running epochs, writes checkpoints."""
        self._queries.close()
        if self.flight is not None:
            self.flight.stop()
        self._http.stop()
        self._folder.stop()
        self._commands.stop()
        self.upkeep.stop()
        self.engine.close()
        self._log.close(() if self._stopped else [Event("", "server", STOPPED)])
        self._stopped = True


def _audit_of(config: Config, access: Access) -> Audit:
    """Returns the audit log of a server that has principals; it is told of the access file, and
    opened once the data folder is locked."""
    if not isinstance(access, AccessFile):
        return NO_AUDIT
    folder, sync = config.data / FOLDER, config.fsync != "none"
    audit = AuditLog(folder, access.rules.audit, system_clock, sync=sync)
    audit.write([Event("", "", STARTED, detail=f"access file {config.access}")])

    def changed(fault: ServiceError | None) -> None:
        outcome, detail = ("done", "") if fault is None else ("failed", str(fault))
        audit.write([Event("", "", "read access file", str(config.access), 0, outcome, detail)])

    access.changed = changed
    audit.start(THREADS)
    return audit


def _audit_canary(audit: Audit, rule: str, version: int, found: Verdict) -> None:
    """Tells the audit log what has become of a canary, which nobody has asked for now."""
    what = "promote canary" if found.promoted else "roll canary back"
    audit.write([Event("", "", what, rule, version, "done", found.reason)])


def check_address(config: Config) -> None:
    """Raises ServiceError for an address beyond this machine without a token, principals or
    certificates of clients: whoever reaches the port may run SQL."""
    if config.token is not None and config.access is not None:
        raise ServiceError(
            "a server has a token or an access file, not both",
            detail="the token would be an administrator's whom the file does not name",
            hint="give the token to a principal of the file: 'sql access hash --token-file FILE'",
        )
    known = config.token or config.access or config.tls_client_ca
    if config.host not in LOOPBACK and not known:
        raise ServiceError(
            f"refusing to listen on {config.host} without a token",
            detail="anybody who reaches the port could change jobs",
            hint="set SQLENGINE_TOKEN, --token-file or --access, or listen on 127.0.0.1",
        )


def _local_socket(config: Config) -> LocalSocket | None:
    """Returns the local socket. Raises ServiceError where it was asked for and cannot be made; in
    the data folder it is left out, then."""
    path = config.local_socket
    if is_used(path):  # by a server that has locked the folder: its lock says so
        return None
    try:
        # Users whom the access file does not name are refused by their number.
        return LocalSocket(path, 0o600 if config.access is None else 0o666)
    except ServiceError as error:
        if config.socket is not None:
            raise
        log.warning("%s: %s", error.message, error.detail)
        return None


def _tls_files(config: Config) -> TlsFiles | None:
    """Returns the files of TLS. Raises ServiceError if some of them are missing."""
    if config.tls_certificate and config.tls_key:
        return TlsFiles(config.tls_certificate, config.tls_key, config.tls_client_ca)
    if config.tls_certificate or config.tls_key or config.tls_client_ca:
        raise ServiceError(
            "a certificate and its key are needed for TLS",
            detail="one of them is missing",
            hint="give both --tls-cert FILE and --tls-key FILE",
        )
    return None


def _warn_of_rights(config: Config) -> None:
    """Warns of a data folder that others may read or change, since texts of jobs and records are in
    it, and of folders whose content runs."""
    run = [("watched folder", config.jobs_folder), ("folder of functions", config.functions_folder)]
    for concern in concerns(config.data, run):
        log.warning("%s", concern)


def serve(config: Config) -> None:
    """Runs the server until SIGTERM or SIGINT, then stops it cleanly: at any time, also while it
    starts. After `STOP_S` seconds the process ends as it is."""
    keep_private()
    begin_log("%(asctime)s %(levelname)s %(name)s %(message)s")
    raise_file_limit()
    stopping, awake = threading.Event(), threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stopping.set()
        awake.set()

    check_address(config)
    keep_for_reuse()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    steps = Steps(config.step_timeout_s, THREADS.now)
    openings = Openings(THREADS.lanes(), config.connector_timeout_s)
    # This thread has to be free for signals, and the other one lives as long as the server:
    # processes that it starts die with it.
    with own_process(), ThreadPoolExecutor(1, thread_name_prefix="service") as owner:
        opening = owner.submit(_open, config, steps, openings, stopping)
        opening.add_done_callback(lambda _: awake.set())
        _await(awake)
        if stopping.is_set() and not opening.done():
            _exit_later()
            steps.stop()
            openings.stop()
        try:
            service = opening.result()
        except StepEnded:
            log.info("stopped before it was ready")
            return
        except OSError as error:
            raise cannot_start(error) from error
        log.info("ready on %s, data in %s", service.url, config.data)
        _await(stopping)
        _exit_later()
        owner.submit(service.stop).result()
        log.info("stopped")


def _await(event: threading.Event) -> None:
    """Waits for an event that a signal sets. The system may give a signal to any thread, and only
    the one that waits here answers it: it has to look now and then."""
    while not event.wait(_LOOK_S):
        pass


def _open(config: Config, steps: Steps, openings: Openings, stopping: threading.Event) -> Service:
    service = Service(config, steps, openings)
    try:
        if not stopping.is_set():  # else jobs would fail for tables that were not waited for
            service.start()
            give_back()
    except BaseException:
        service.stop()
        raise
    return service


def _exit_later() -> None:
    """Ends the process in `STOP_S` seconds, if it has not ended by then. Nothing is lost: the next
    start repeats the epochs since the last checkpoint."""

    def leave() -> None:
        log.warning("not stopped after %g s: the process ends as it is, nothing is lost", STOP_S)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(STOP_S, leave)
    timer.daemon = True
    timer.start()
