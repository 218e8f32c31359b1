"""Work in forked processes, which may be killed. A forked child starts in milliseconds, where a new
interpreter takes a second: so most kills fall into work and not into imports. Only a process
without threads and open databases can fork."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import PATIENCE_S

READY = b"r"


@dataclass(frozen=True)
class Kill:
    """From outside, so long after the process began, or after it has said that it is ready."""

    after_s: float
    when_ready: bool


def run_in_child(
    work: Callable[[int], None], kill: Kill | None = None, before: Callable[[], None] = lambda: None
) -> bool:
    """Runs work, given a file to say READY to; whether it ended by itself, and not by a kill.
    AssertionError when it failed, or did not end. `before`: what is done here once the child is
    there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_and_end(work, writing)
    os.close(writing)
    before()
    try:
        if kill is not None:
            if kill.when_ready:
                _wait_for_word(reading)
            time.sleep(kill.after_s)
            os.kill(child, signal.SIGKILL)
        else:
            while _wait_for_word(reading):
                pass
    except TimeoutError:
        os.kill(child, signal.SIGABRT)  # faulthandler tells where it hangs
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"a life ended with {code}"
    return code == 0


def _run_and_end(work: Callable[[int], None], writing: int) -> None:
    code = 1
    try:
        work(writing)
        code = 0
    except BaseException:  # noqa: BLE001  the child ends here, and says why
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for_word(reading: int) -> bytes:
    """The next byte; nothing when the child is gone. TimeoutError when neither comes."""
    ready, _, _ = select.select([reading], [], [], PATIENCE_S)
    if not ready:
        raise TimeoutError
    return os.read(reading, 1)
