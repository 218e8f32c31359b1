"""A server of MQTT: mosquitto, which keeps sessions and messages over kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ServerProcess
from tests.servers.setup import MOSQUITTO

# It would become a user that may not read the folder, where root starts it.
_SETTINGS = """
user root
per_listener_settings true
max_inflight_messages 1000
max_queued_messages 0
max_queued_bytes 0
message_size_limit 0
listener {port} 127.0.0.1
allow_anonymous true
"""
_LASTING = """
persistence true
persistence_location {folder}/
"""
# Each message is on disk before the next one is taken, about. All that is known is written then.
_AT_ONCE = """
autosave_interval 1
autosave_on_changes true
"""
_AT_ITS_END = """
autosave_interval 0
"""
_PRIVATE = """
listener {port} 127.0.0.1
allow_anonymous false
password_file {folder}/passwords
certfile {certificate}
keyfile {key}
"""
# What `mosquitto_passwd` makes of 'sensor' and 'hush'.
_PASSWORD = (
    "sensor:$7$101$IwwEhfh9mI2WKN0m$ygvYzhEg1LmgNvy+7FpadpkfBJWg4ijopoV4eEGUpt+x"
    "ZxN2m1ZOYbYhLj6y3bwQvEcMuiOwYQi1sDS1ynTs2g==\n"
)


class Mosquitto(ServerProcess):
    """A server that anybody may use at `address`. One that is `lasting` remembers sessions and
    messages when it was killed, or without `at_once`, which is slow, when it was stopped. With the files `certificate` and `key` it asks for the user
    'sensor' with the password 'hush' at `private_address`, by TLS."""

    name = "mosquitto"
    more_ports = 1

    def __init__(
        self,
        folder: Path,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        lasting: bool = False,
        at_once: bool = True,
    ) -> None:
        super().__init__(folder)
        self._lasting, self._at_once = lasting, at_once
        self._certificate, self._key = certificate, key

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def private_address(self) -> str:
        return f"ssl://localhost:{self.other_ports[0]}"

    def command(self) -> Sequence[str]:
        return [MOSQUITTO.path(), "-c", "mosquitto.conf"]

    def prepare(self) -> None:
        MOSQUITTO.path()
        text = ""
        if self._lasting:
            text = _LASTING.format(folder=self.folder)
            text += _AT_ONCE if self._at_once else _AT_ITS_END
        text += _SETTINGS.format(port=self.port)
        if self._certificate is not None:
            (self.folder / "passwords").write_text(_PASSWORD)
            text += _PRIVATE.format(
                port=self.other_ports[0],
                folder=self.folder,
                certificate=self._certificate,
                key=self._key,
            )
        (self.folder / "mosquitto.conf").write_text(text)
