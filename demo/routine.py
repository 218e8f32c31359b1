"""Everyday activity: programs that people start, services, jobs, logins that fail once."""

from __future__ import annotations

import random
from collections.abc import Callable

from demo.attacks import Steps
from demo.hosts import LINUX, SYSTEM32, Host, Network, Process

OFFICE = "C:\\Program Files\\Microsoft Office\\root\\Office16\\"
CHROME = "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe"
SITES = (
    ("142.250.74.110", "www.google.com"), ("140.82.121.3", "github.com"), ("52.96.165.18", "outlook.office365.com"),
    ("151.101.1.140", "www.reddit.com"), ("104.16.132.229", "www.cloudflare.com"), ("13.107.42.14", "www.linkedin.com"),
    ("185.199.108.133", "raw.githubusercontent.com"), ("91.198.174.192", "en.wikipedia.org"),
)  # fmt: skip
DOCUMENTS = ("budget", "offer", "minutes", "plan", "report", "roadmap", "invoice", "travel")


def _home(process: Process) -> str:
    return "C:\\Users\\" + process.user.rsplit("\\", 1)[-1]


def browse(host: Host, network: Network, rng: random.Random) -> Steps:
    shell = host.running["shell"]
    browser, event = host.spawn(shell, CHROME, f'"{CHROME}"')
    yield 0.0, event
    for kind in rng.sample(("renderer", "utility", "gpu-process"), rng.randrange(1, 3)):
        flags = (
            f"--type={kind} --lang=en-US --renderer-client-id={rng.randrange(4, 40)}"
            f" --mojo-platform-channel-handle={rng.randrange(1000, 9999)}"
        )
        yield rng.uniform(0.05, 0.5), host.run(browser, CHROME, f'"{CHROME}" {flags}')
    for ip, name in rng.sample(SITES, rng.randrange(1, 4)):
        yield rng.uniform(0.2, 4), host.connect(browser, ip, 443, name)


def office(host: Host, network: Network, rng: random.Random) -> Steps:
    program, suffix = rng.choice(
        (("WINWORD.EXE", "docx"), ("EXCEL.EXE", "xlsx"), ("POWERPNT.EXE", "pptx"))
    )
    shell = host.running["shell"]
    document = f"{_home(shell)}\\Documents\\{rng.choice(DOCUMENTS)}-{rng.randrange(1, 30)}.{suffix}"
    process, event = host.spawn(shell, OFFICE + program, f'"{OFFICE}{program}" /n "{document}"')
    yield 0.0, event
    for _ in range(rng.randrange(1, 4)):
        yield rng.uniform(5, 60), host.write(process, document)
    yield (
        rng.uniform(0.1, 2),
        host.connect(process, *rng.choice((("52.109.8.20", 443), ("52.96.165.18", 443)))),
    )


def windows_service(host: Host, network: Network, rng: random.Random) -> Steps:
    image, arguments = rng.choice((
        ("svchost.exe", "-k LocalServiceNetworkRestricted -p"), ("svchost.exe", "-k wsappx -p -s AppXSvc"),
        ("taskhostw.exe", "{222A245B-E637-4AE9-A93F-A59CA119A75E}"), ("backgroundTaskHost.exe", "-ServerName:App.AppX"),
        ("SearchProtocolHost.exe", "Global\\UsGthrFltPipeMssGthrPipe"), ("conhost.exe", "0xffffffff -ForceV1"),
        ("wuauclt.exe", "/RunHandlerComServer"), ("MusNotification.exe", ""),
    ))  # fmt: skip
    parent = host.running[rng.choice(("services", "svchost"))]
    if image == "svchost.exe" and rng.random() < 0.5:
        arguments = f"-k UnistackSvcGroup -s CDPUserSvc_{rng.randrange(1 << 20):05x}"
    process, event = host.spawn(parent, SYSTEM32 + image, f"{SYSTEM32}{image} {arguments}".strip())
    yield 0.0, event
    if rng.random() < 0.4:
        yield (
            rng.uniform(0.1, 3),
            host.write(process, f"C:\\Windows\\Temp\\wct{rng.randrange(4096):04X}.tmp"),
        )
    if rng.random() < 0.4:
        yield (
            rng.uniform(0.1, 3),
            host.connect(process, "10.1.0.10", rng.choice((53, 88, 389, 445)), "DC-01"),
        )


def administration(host: Host, network: Network, rng: random.Random) -> Steps:
    shell = host.running["shell"]
    prompt, event = host.spawn(shell, f"{SYSTEM32}cmd.exe", f'"{SYSTEM32}cmd.exe"')
    yield 0.0, event
    for command in rng.choices(
        ("ipconfig.exe /all", "ping.exe -n 4 10.1.0.10", "net.exe use Z: \\\\FILES-01\\team", "tasklist.exe",
         "gpupdate.exe /force", "sc.exe query spooler", "whoami.exe"), k=rng.randrange(1, 3),
    ):  # fmt: skip
        program, _, arguments = command.partition(" ")
        yield (
            rng.uniform(1, 15),
            host.run(
                prompt, SYSTEM32 + program, f"{program.removesuffix('.exe')} {arguments}".strip()
            ),
        )


def unlock(host: Host, network: Network, rng: random.Random) -> Steps:
    """Now and then a password is mistyped first."""
    user, source = host.users[0], rng.choice(network.workstations).ip
    if rng.random() < 0.15:
        yield 0.0, host.login(user, source, "failure")
    yield rng.uniform(1, 6), host.login(user, source, "success")


def cron_job(host: Host, network: Network, rng: random.Random) -> Steps:
    command = rng.choice((
        "/usr/lib/sysstat/sa1 1 1", "/usr/local/bin/backup.sh --incremental", "test -x /usr/sbin/anacron || run-parts /etc/cron.daily",
        "/usr/bin/certbot -q renew", "/opt/app/bin/cleanup --older-than 7d",
    ))  # fmt: skip
    shell, event = host.spawn(
        host.running["cron"], "/usr/bin/dash", f"/bin/sh -c {command}", "root"
    )
    yield 0.0, event
    program = command.split()[0]
    if program.startswith("/"):
        process, event = host.spawn(shell, program, command)
        yield 0.02, event
        yield rng.uniform(0.1, 2), host.write(process, f"/var/log/{program.rsplit('/', 1)[-1]}.log")


def deploy(host: Host, network: Network, rng: random.Random) -> Steps:
    source = rng.choice(network.workstations).ip
    yield 0.0, host.login("deploy", source, "success")
    session, event = host.spawn(host.running["login"], "/usr/bin/bash", "-bash", "deploy")
    yield 0.3, event
    for command in rng.choices(
        ("/usr/bin/git pull --ff-only", "/usr/bin/ls -la", "/usr/bin/systemctl --user restart app", "/usr/bin/df -h",
         "/usr/bin/tail -n 100 /var/log/app/app.log", "/usr/bin/docker ps", "/usr/bin/make test"), k=rng.randrange(1, 5),
    ):  # fmt: skip
        image = command.split()[0]
        process, event = host.spawn(session, image, command.removeprefix("/usr/bin/"))
        yield rng.uniform(0.5, 10), event
        if image.endswith("git"):
            yield 0.2, host.connect(process, "140.82.121.3", 22, "github.com")


def serve(host: Host, network: Network, rng: random.Random) -> Steps:
    worker = host.running["web"]
    for _ in range(rng.randrange(1, 4)):
        yield rng.uniform(0.0, 0.2), host.connect(worker, "10.1.2.12", 5432, "db-1")
    if rng.random() < 0.3:
        yield (
            rng.uniform(0.0, 1),
            host.write(worker, f"/var/cache/nginx/{rng.randrange(16):x}/{rng.randrange(256):02x}"),
        )


def file_service(host: Host, network: Network, rng: random.Random) -> Steps:
    """A server at work for the others: people's files arrive, backups leave."""
    client = rng.choice(network.workstations)
    worker = host.running["svchost"]
    yield 0.0, host.login(client.users[0], client.ip, "success")
    for _ in range(rng.randrange(1, 4)):
        name = (
            f"{rng.choice(DOCUMENTS)}-{rng.randrange(1, 30)}.{rng.choice(('docx', 'xlsx', 'pdf'))}"
        )
        yield (
            rng.uniform(0.2, 5),
            host.write(worker, f"D:\\team\\{rng.choice(('sales', 'hr', 'legal'))}\\{name}"),
        )
    if rng.random() < 0.1:
        command = (
            "robocopy.exe D:\\team \\\\DC-01\\backup /MIR"
            f" /LOG:C:\\Windows\\Temp\\copy-{rng.randrange(1, 100):02d}.log"
        )
        process, event = host.spawn(worker, f"{SYSTEM32}robocopy.exe", command)
        yield rng.uniform(1, 9), event
        yield 0.1, host.connect(process, "10.1.0.10", 445, "DC-01")


Routine = Callable[[Host, Network, random.Random], Steps]
WORKSTATION: dict[Routine, int] = {
    browse: 8,
    office: 5,
    windows_service: 10,
    administration: 2,
    unlock: 2,
}
WINDOWS_SERVER: dict[Routine, int] = {windows_service: 4, file_service: 6, administration: 1}
LINUX_SERVER: dict[Routine, int] = {cron_job: 5, deploy: 2, serve: 8}


def activity(network: Network, rng: random.Random) -> Steps:
    """Something ordinary, on one of the hosts."""
    host = rng.choices(network.hosts, weights=network.weights)[0]
    table = (
        LINUX_SERVER
        if host.os == LINUX
        else WINDOWS_SERVER
        if host in network.servers
        else WORKSTATION
    )
    routine = rng.choices(list(table), weights=list(table.values()))[0]
    return routine(host, network, rng)
