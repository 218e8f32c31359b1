"""Secrets from a command, such as `vault kv get -field=value secret/{name}`."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from parser.errors import ServiceError

# What stands for the name in the command.
NAME: Final = "{name}"
# Seconds that a command may take, and that its value is used again; most bytes of a value.
DEADLINE_S: Final = 10.0
_KEPT_S: Final = 10.0
_MOST: Final = 1 << 20
_CHUNK: Final = 1 << 16


@dataclass(frozen=True)
class SecretCommand:
    """Runs a command for each secret, without a shell. Any thread; one command at a time.

    `words`: the program and its arguments, in which `{name}` stands for the name."""

    words: tuple[str, ...]
    now: Callable[[], float] = time.monotonic
    _values: dict[str, tuple[float, str | None]] = field(default_factory=dict, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def get(self, name: str) -> str | None:
        """Returns what the command prints, without the line break behind it; None where it fails.

        ServiceError for one that cannot be run, takes longer than `DEADLINE_S` or prints more than
        a megabyte. No error has anything of what it prints."""
        with self._lock:
            until, value = self._values.get(name, (0.0, None))
            if self.now() >= until:
                value = _printed([word.replace(NAME, name) for word in self.words], name)
                self._values[name] = (self.now() + _KEPT_S, value)
            return value


@cache
def secret_command(text: str) -> SecretCommand:
    """Returns the command of `--secrets-command`. ServiceError where it names no place for the
    name, or no program."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = ()
    if not words or not any(NAME in word for word in words[1:]):
        raise ServiceError(
            "the command for secrets is none",
            detail=f"it has a program, and arguments with {NAME} in one of them",
            hint=f"--secrets-command 'vault kv get -field=value secret/{NAME}'",
        )
    return SecretCommand(words)


def _printed(words: list[str], name: str) -> str | None:
    """Returns the text that a command prints; None if it ends with another status than 0."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed(name, f"'{words[0]}' cannot be run: {error.strerror}") from None
    try:
        data = _output(process, name)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode:
        return None
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _failed(name, "what it prints is not UTF-8") from None


def _output(process: subprocess.Popen[bytes], name: str) -> bytes:
    """Reads all that the process prints until it ends."""
    assert process.stdout is not None
    until, found = time.monotonic() + DEADLINE_S, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            chunk = os.read(process.stdout.fileno(), _CHUNK)
            found += chunk
            if len(found) > _MOST:
                raise _failed(name, f"it prints more than {_MOST:,} bytes")
            if not chunk and _ends(process, until):
                return bytes(found)
            if not chunk:
                break
    raise _failed(name, f"it takes longer than {DEADLINE_S:g} s")


def _ends(process: subprocess.Popen[bytes], until: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, until - time.monotonic()))
        return True
    return False


def _failed(name: str, detail: str) -> ServiceError:
    return ServiceError(
        f"the command for secrets gives no secret '{name}'",
        detail=detail,
        hint="run it by hand as the server's user: see --secrets-command",
    )
