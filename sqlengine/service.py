"""The server process: engine, HTTP, watched folder and command topic; SIGTERM stops it cleanly."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

from parser.errors import ServiceError
from sqlengine.api.app import create_app
from sqlengine.api.problems import describe
from sqlengine.api.server import HttpServer
from sqlengine.config import LOOPBACK, Config
from sqlengine.control.commands import CommandIntake
from sqlengine.control.folder_intake import FolderIntake
from sqlengine.engine import Engine
from sqlengine.engine.upkeep import Upkeep
from sqlengine.queries.service import QueryService
from sqlengine.system.addresses import host_and_port
from sqlengine.system.memory import give_back, keep_for_reuse

log = logging.getLogger("sqlengine")


class Service:
    """Owns everything that runs in a server process. `start` returns when it is ready; `stop` may
    be called twice."""

    def __init__(self, config: Config) -> None:
        check_address(config)
        self.config = config
        self.engine = Engine(config)
        try:
            self._commands = CommandIntake(self.engine, describe)
            self.upkeep = Upkeep(self.engine)
            self._folder = FolderIntake(self.engine, config.jobs_folder)
            self._queries = QueryService(self.engine)
            app = create_app(self.engine, self._folder, self._queries)
            self._http = HttpServer(app, config.host, config.port)
        except BaseException:
            self.engine.close()
            raise

    @property
    def port(self) -> int:
        """The port that it listens on: with 0 in the configuration, a free one."""
        return self._http.port

    def start(self) -> None:
        self.engine.start()
        self._folder.start()
        self._commands.start()
        self.upkeep.start()
        give_back()
        self._http.start()

    def stop(self) -> None:
        """Accepts no more requests, ends the running epochs, writes checkpoints."""
        self._queries.close()
        self._http.stop()
        self._folder.stop()
        self._commands.stop()
        self.upkeep.stop()
        self.engine.close()


def check_address(config: Config) -> None:
    """Raises ServiceError for an address beyond this machine without a token: whoever reaches the
    port may run SQL."""
    if config.host not in LOOPBACK and not config.token:
        raise ServiceError(
            f"refusing to listen on {config.host} without a token",
            detail="anybody who reaches the port could change jobs",
            hint="set SQLENGINE_TOKEN or --token-file, or listen on 127.0.0.1",
        )


def serve(config: Config) -> None:
    """Runs the server until SIGTERM or SIGINT, then stops it cleanly."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stopping = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stopping.set()

    check_address(config)
    keep_for_reuse()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    service = Service(config)
    try:
        service.start()
        address = host_and_port(config.host, service.port)
        log.info("ready on http://%s, data in %s", address, config.data)
        stopping.wait()
    finally:
        service.stop()
        log.info("stopped")
