"""A line on the terminal while a command waits; nothing in a pipe."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Final

import click

from sqlengine.client import Client, default_client
from sqlengine.system.terminal import obeying, visible

# Whoever waits for less sees nothing.
PATIENCE_S: Final = 0.5
_EVERY_S: Final = 0.1
# Where the options of TLS are, in the context of a command.
TLS: Final = "sqlengine.tls"
_WIPE: Final = "\r\x1b[K"


class Waiting:
    """The line while it is shown. `what` may be changed meanwhile."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)

    def start(self) -> None:
        """Begins to wait."""
        self._thread.start()

    def end(self) -> None:
        """Wipes the line."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        if self._over.wait(PATIENCE_S):
            return
        for sign in cycle("|/-\\"):
            shown = f"{sign} {self.what}: {time.monotonic() - began:.0f} s"
            line = visible(shown)[: shutil.get_terminal_size().columns - 1]
            _write(_WIPE + line)
            if self._over.wait(_EVERY_S):
                break
        _write(_WIPE)


def _write(text: str) -> None:
    terminal = obeying(sys.stderr)
    terminal.write(text)
    terminal.flush()


_shown: list[Waiting] = []


@contextmanager
def at_work(what: str) -> Iterator[Waiting]:
    """Shows what is done, and for how long, while the block runs. Within another such block that
    one's line stays."""
    waiting = Waiting(what)
    if _shown or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield waiting
        return
    _shown.append(waiting)
    waiting.start()
    try:
        yield waiting
    finally:
        waiting.end()
        _shown.clear()


def connect(server: str | None, token_file: str | None) -> Client:
    """Returns a client as `default_client` does, which shows that it waits for the server."""
    context = click.get_current_context(silent=True)
    tls = None if context is None else context.meta.get(TLS)
    client = default_client(server, token_file, tls)
    return replace(client, waiting=lambda: at_work(f"waiting for {client.server}"))
