"""The server: engine, HTTP, watched folder, command topic; SIGTERM ends it in good order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

from parser.errors import ServiceError, SqlError
from sqlengine.api.app import create_app
from sqlengine.api.problems import describe
from sqlengine.changes import Request
from sqlengine.config import Config
from sqlengine.control.commands import CommandIntake
from sqlengine.control.folder import FolderChange, FolderWatcher
from sqlengine.engine import Engine
from sqlengine.jobs import JobState, Origin
from sqlengine.planning import JobText

log = logging.getLogger("sqlengine")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Service:
    """Everything that runs in one server process. `start` returns when it is ready; `stop` may be called twice."""

    def __init__(self, config: Config) -> None:
        check_address(config)
        import waitress

        self.config = config
        self.engine = Engine(config)
        self._commands = CommandIntake(self.engine, describe)
        self._server = waitress.create_server(
            create_app(self.engine), host=config.host, port=config.port, threads=16, ident="sqlengine"
        )
        self._http = threading.Thread(target=self._server.run, name="http", daemon=True)
        self._folder: FolderWatcher | None = None

    @property
    def port(self) -> int:
        """The port it listens on (the one that was free, where the configuration says 0)."""
        return int(self._server.effective_port)

    def start(self) -> None:
        self.engine.start()
        self.config.jobs_folder.mkdir(parents=True, exist_ok=True)
        self._folder = FolderWatcher(self.config.jobs_folder, self._folder_changed)
        self._align(self._folder.scan())
        self._folder.start()
        self._commands.start()
        self._http.start()

    def stop(self) -> None:
        """Takes no more requests, ends the running epoch, writes a checkpoint."""
        self._server.close()
        if self._folder is not None:
            self._folder.stop()
        self._commands.stop()
        self.engine.close()

    def _align(self, files: FolderChange) -> None:
        """At start the folder is the truth: what is no longer in it goes, what is there comes."""
        mine = {j.name for j in self.engine.jobs() if j.origin is Origin.FOLDER}
        self._change(files, frozenset(n for n in mine - set(files.upserts) if not files.keeps(n)))

    def _folder_changed(self, change: FolderChange) -> None:
        self._change(change, frozenset(change.removed))

    def _change(self, change: FolderChange, removed: frozenset[str]) -> None:
        for path, error in change.problems:
            log.error("%s: %s", path, error)
        known = {j.name for j in self.engine.jobs()}
        renamed = {old: new for old, new in change.renamed.items() if old in known and new not in known}
        taken = set(renamed.values())
        texts = {n: JobText(n, f.text, str(f.path)) for n, f in change.upserts.items() if n not in taken}
        asked = Request(Origin.FOLDER, texts, removed & known, renamed)
        for outcome in self.engine.change(asked).values():
            if outcome.error is not None:
                log.error("%s: %s", outcome.name, outcome.error)
            elif outcome.status != "unchanged" and len(texts) <= 20:
                log.info("%s: %s", outcome.name, outcome.status)
        running = sum(j.state is JobState.RUNNING for j in self.engine.jobs())
        log.info("%d jobs run", running)


def check_address(config: Config) -> None:
    """Whoever reaches the port may run SQL: other machines need a token for that."""
    if config.host not in _LOOPBACK and not config.token:
        raise ServiceError(
            f"refusing to listen on {config.host} without a token",
            detail="anybody who reaches the port could change jobs",
            hint="set SQLENGINE_TOKEN or --token-file, or listen on 127.0.0.1",
        )


def serve(config: Config) -> None:
    """Runs until SIGTERM or SIGINT, then stops in good order."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stopping = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    service = Service(config)
    try:
        service.start()
        log.info("ready on http://%s:%d, data in %s", config.host, service.port, config.data)
        stopping.wait()
    except SqlError as error:
        log.error("%s", error)
        raise
    finally:
        service.stop()
        log.info("stopped")


def token_from(path: str | None) -> str | None:
    """The token in a file, or in SQLENGINE_TOKEN; None when neither is given."""
    if path is None:
        return os.environ.get("SQLENGINE_TOKEN")
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
