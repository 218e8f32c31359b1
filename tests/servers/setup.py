"""What the servers of tests are made of, and how it gets onto this machine.

    python -m tests.servers.setup        installs what can be installed, and names what cannot

Programs are Debian's (apt-get, for root), servers in Java are jars of Maven Central, which `mvn` copies
into a cache in the home of the user, where `archives.py` keeps their classes as Java has loaded them.
Nothing is fetched or recorded that is there already."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.servers.process import Missing

HERE: Final = Path(__file__).resolve().parent
REMEDY: Final = "make setup-servers"
# Where programs are that the PATH of a user may lack; each version of PostgreSQL has its own.
_POSTGRESQL: Final = map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
_SYSTEM: Final = ("/usr/sbin", "/sbin", "/usr/local/sbin", *_POSTGRESQL)


@dataclass(frozen=True)
class Program:
    """A server that is a program: the name of its executable, and Debian's package."""

    name: str
    package: str

    def path(self) -> str:
        """Returns where the executable is; `Missing` where it is not installed."""
        found = shutil.which(self.name, path=os.pathsep.join([os.environ["PATH"], *_SYSTEM]))
        if found is None:
            raise Missing(
                f"{self.name} is not installed: {REMEDY} as root (package {self.package})"
            )
        return found

    def install(self) -> None:
        """Installs the package. `Missing` says why it cannot."""
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise Missing(f"{self.name} needs root and apt-get (package {self.package})")
        quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", self.package]
        try:
            _run(command, quiet)
        except Missing:  # its list of packages may be missing, or old
            _run(["apt-get", "update", "-q"], quiet)
            _run(command, quiet)


@dataclass(frozen=True)
class Jars:
    """A server that runs in Java: `NAME.pom.xml` beside this file has its dependencies."""

    name: str

    @property
    def _pom(self) -> Path:
        return HERE / f"{self.name}.pom.xml"

    @property
    def folder(self) -> Path:
        """The folder of the jars: another one for another list of dependencies."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        digest = sha256(self._pom.read_bytes()).hexdigest()[:12]
        return cache / "sqlengine" / "servers" / f"{self.name}-{digest}"

    def path(self) -> str:
        """Returns a class path; `Missing` where Java or the jars are not there."""
        if shutil.which("java") is None:
            raise Missing(f"there is no Java, which {self.name} runs on")
        if not self.folder.is_dir():
            raise Missing(f"the jars of {self.name} are not there: {REMEDY}")
        return f"{self.folder}/*"

    @property
    def archive(self) -> Path:
        """Where `archives.py` keeps the classes as Java has loaded them."""
        return self.folder / "classes.jsa"

    def java(self) -> list[str]:
        """Returns Java's options for the class path, and for the archive if there is one; `Missing`
        as `path`."""
        path = self.path()
        archived = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive.exists() else []
        return [*archived, "-cp", path]

    def install(self) -> None:
        """Copies the jars. `Missing` says why it cannot."""
        if shutil.which("mvn") is None or shutil.which("java") is None:
            raise Missing(f"{self.name} needs mvn and java")
        unfinished = self.folder.with_suffix(f".{os.getpid()}")
        command = ["mvn", "-q", "-B", "-f", str(self._pom), "dependency:copy-dependencies"]
        _run([*command, f"-DoutputDirectory={unfinished}", "-DincludeScope=runtime"], {})
        unfinished.rename(self.folder)


MOSQUITTO: Final = Program("mosquitto", "mosquitto")
RSYSLOG: Final = Program("rsyslogd", "rsyslog")
POSTGRESQL: Final = Program("postgres", "postgresql")
MARIADB: Final = Program("mariadbd", "mariadb-server-core")
FLINK_CLIENTS: Final = Jars("flink-clients")
FLIGHT_JDBC: Final = Jars("flight-jdbc")
SERVERS: Final = (
    Jars("kafka"),
    Jars("rocketmq"),
    FLINK_CLIENTS,
    FLIGHT_JDBC,
    MOSQUITTO,
    RSYSLOG,
    POSTGRESQL,
    MARIADB,
)


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Missing(f"'{' '.join(command)}' failed: {done.stdout.strip()[-300:]}")


def main() -> None:
    """Installs what is missing. What cannot be installed costs only the tests that need it."""
    for server in SERVERS:
        try:
            server.path()
        except Missing:
            try:
                server.install()
            except Missing as error:
                print(f"skipped: {error}", file=sys.stderr)
                continue
        print(f"{server.name}: {server.path()}")
    from tests.servers.archives import record_missing  # it knows the servers, which know this

    record_missing()


if __name__ == "__main__":
    main()
