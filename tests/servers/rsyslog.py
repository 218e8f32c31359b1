"""rsyslogd: it takes messages over UDP and TCP on its port, writes them to a file, and sends them on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ServerProcess, is_open
from tests.servers.setup import RSYSLOG

_CONFIGURATION = """
global(workDirectory="{folder}" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")
main_queue(queue.type="Direct")
module(load="imudp")
module(load="imtcp")
input(type="imudp" address="127.0.0.1" port="{port}")
input(type="imtcp" address="127.0.0.1" port="{port}")
template(name="fields" type="string"
  string="%pri%|%hostname%|%app-name%|%msgid%|%structured-data%|%msg%\\n")
{more}
"""
_KEEP = """
action(type="omfile" file="{folder}/messages" template="fields")
"""
_FORWARD = """
action(type="omfwd" target="127.0.0.1" port="{port}" protocol="{protocol}" TCP_Framing="{framing}"
  template="RSYSLOG_SyslogProtocol23Format" action.resumeRetryCount="-1" action.resumeInterval="1"
  queue.type="LinkedList")
"""


class Rsyslog(ServerProcess):
    """A server of syslog. `to`: where it sends what it gets, as port, 'udp' or 'tcp', and framing
    ('octet-counted' or 'traditional'). Without `keeps` it has no file of what it got."""

    name = "rsyslogd"

    def __init__(self, folder: Path, *to: tuple[int, str, str], keeps: bool = True) -> None:
        super().__init__(folder)
        self._to, self._keeps = to, keeps

    def prepare(self) -> None:
        RSYSLOG.path()
        more = _KEEP.format(folder=self.folder) if self._keeps else ""
        more += "".join(
            _FORWARD.format(port=port, protocol=protocol, framing=framing)
            for port, protocol, framing in self._to
        )
        text = _CONFIGURATION.format(folder=self.folder, port=self.port, more=more)
        (self.folder / "rsyslog.conf").write_text(text)

    def command(self) -> Sequence[str]:
        configuration, pid = self.folder / "rsyslog.conf", self.folder / "pid"
        return [RSYSLOG.path(), "-n", "-f", str(configuration), "-i", str(pid)]

    def ready(self) -> bool:
        return is_open(self.port)

    def messages(self) -> list[list[str]]:
        """What it got: priority, host, application, message id, structured data, and text."""
        file = self.folder / "messages"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split("|", 5) for line in lines]
