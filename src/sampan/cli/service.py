"""`sampan service`: run a cluster as a systemd service, which starts with the machine or with the user's session.

The text of the unit is a pure function of its settings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from sampan.cli.command_classes import AliasGroup
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster, cluster_dir, cluster_options
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.private_files import write_private

_SYSTEM_UNITS = Path("/etc/systemd/system")
_MODE = 0o644
_OUTPUT_FLAGS = ("--merge-kubeconfig", "--kubeconfig-out", "--audit-log-path")
"""The flags of `sampan up` that name files outside of the data directory."""


@dataclass(frozen=True, slots=True)
class ClusterService:
    """The unit of one cluster, of the system or of the current user."""

    cluster: str
    is_user: bool

    @property
    def unit(self) -> str:
        return f"sampan-{self.cluster}.service"

    @property
    def path(self) -> Path:
        if not self.is_user:
            return _SYSTEM_UNITS / self.unit
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(config).absolute() / "systemd/user" / self.unit

    def is_installed(self) -> bool:
        """Whether the unit file exists and was written by `sampan service install`."""
        try:
            return self.path.read_text(errors="replace").startswith(MARK)
        except FileNotFoundError:
            return False

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which("systemctl")
        if program is None or not Path("/run/systemd/system").is_dir():
            raise CliError("systemd does not run this machine; `sampan service install --print` shows the unit")
        command = [program, *(["--user"] if self.is_user else []), *words]
        return subprocess.run(command, capture_output=True, text=True)

    def run_systemctl(self, *words: str) -> None:
        done = self.systemctl(*words)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise CliError(f"systemctl {' '.join(words)}: {lines[-1]}")


def _user_option(function: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--user/--system",
        "is_user",
        default=os.geteuid() != 0,
        help="A service of your session, or of the system. Default: of the system if you are root.",
    )(function)


@click.group("service", cls=AliasGroup)
def command() -> None:
    """Run a cluster as a systemd service."""


@command.command("install")
@cluster_options
@_user_option
@click.option("--print", "only_prints", is_flag=True, help="Print the unit, and change nothing.")
@click.option("--no-start", is_flag=True, help="Only enable the service; it starts with the machine or session.")
@click.argument("up_flags", nargs=-1, type=click.UNPROCESSED, metavar="[-- UP-FLAGS...]")
def install_command(
    data_dir: str | None, name: str, is_user: bool, only_prints: bool, no_start: bool, up_flags: tuple[str, ...]
) -> None:
    """Install, enable and start a service that runs a cluster.

    UP-FLAGS are flags of `sampan up`. A cluster remembers most of its flags, so that an existing one needs none.

    \b
    Examples:
      sampan service install
      sampan service install --name lab -- --nodes 3 --runtime hollow
      sampan service install --print
    """
    directory, service = cluster_dir(data_dir, name), ClusterService(name, is_user)
    directory.check()
    _check_up_flags(up_flags)
    text = unit_text(_settings(directory, name, is_user, up_flags))
    if only_prints:
        click.echo(text, nl=False)
        return
    if service.path.exists() and not service.is_installed():
        raise CliError(f"{service.path} exists, and was not written by `sampan service install`")
    if not is_user and os.geteuid() != 0:
        raise CliError("--system: a service of the system needs root: sudo sampan service install")
    service.systemctl("--version")  # fail before anything is written if systemctl is missing
    if (
        not no_start
        and not service.is_installed()
        and directory.is_cluster
        and directory.read_note_if_running() is not None
    ):
        raise CliError(f"--name: {name} is running; `sampan down --name {name}` stops it, then install the service")
    directory.make()  # a hardened service cannot create the data directory
    service.path.parent.mkdir(parents=True, exist_ok=True)
    write_private(service.path, text.encode())
    service.path.chmod(_MODE)
    service.run_systemctl("daemon-reload")
    service.run_systemctl("enable", *([] if no_start else ["--now"]), service.unit)
    _print_installed(service, no_start=no_start)


def _print_installed(service: ClusterService, *, no_start: bool) -> None:
    flag = " --user" if service.is_user else ""
    click.echo(f"{service.unit}: installed and enabled{'' if no_start else ', started'}")
    click.echo(f"  unit    {service.path}")
    click.echo(f"  log     journalctl{flag} -u {service.unit}")
    click.echo(f"  status  sampan service status --name {service.cluster}")
    click.echo(f"  remove  sampan service uninstall --name {service.cluster}")
    if service.is_user:
        click.echo("  hint    loginctl enable-linger keeps it running after you log out")


def _check_up_flags(words: Sequence[str]) -> None:
    """Raise an error of `sampan up` for flags that it would reject."""
    from sampan.cli.up import command as up

    refused = {"--detach", "-d", "--name", "--data-dir"}
    for word in words:
        if word.partition("=")[0] in refused:
            raise CliError(f"{word.partition('=')[0]}: give it to `sampan service install`, or leave it out")
    with up.make_context("sampan up", list(words)):
        pass


def _settings(directory: ClusterDir, name: str, is_user: bool, up_flags: Sequence[str]) -> ServiceSettings:
    own = ["--name", name, "--data-dir", str(directory.path)]
    return ServiceSettings(
        cluster=name,
        data_dir=directory.path,
        command=[sys.executable, "-m", "sampan", "up", *own, *up_flags],
        is_user=is_user,
        runs_containers=_runs_containers(directory, up_flags),
        writes_elsewhere=any(word.startswith(_OUTPUT_FLAGS) for word in up_flags),
    )


def _runs_containers(directory: ClusterDir, up_flags: Sequence[str]) -> bool:
    """Whether the nodes of the cluster need rights on the machine, which a hardened service lacks."""
    from sampan.cli.local_cluster.remembered_flags import read_flags
    from sampan.cli.up import command as up

    with up.make_context("sampan up", list(up_flags)) as context:
        explicit = {
            name: value
            for name, value in context.params.items()
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }
    options = read_flags(directory.flags) | explicit
    return not (options.get("runtime") == "hollow" or options.get("nodes") == 0)


@command.command("uninstall")
@cluster_options
@_user_option
def uninstall_command(data_dir: str | None, name: str, is_user: bool) -> None:
    """Stop the service of a cluster and remove it. The data of the cluster are kept."""
    cluster_dir(data_dir, name)
    service = ClusterService(name, is_user)
    if not service.path.exists():
        raise CliError(f"there is no {service.path}{_other_hint(service)}")
    if not service.is_installed():
        raise CliError(f"{service.path} was not written by `sampan service install`; remove it yourself")
    service.run_systemctl("disable", "--now", service.unit)
    service.path.unlink()
    service.run_systemctl("daemon-reload")
    click.echo(f"{service.unit}: stopped and removed; the data of the cluster are kept")


def _other_hint(service: ClusterService) -> str:
    other = ClusterService(service.cluster, not service.is_user)
    flag = "--user" if other.is_user else "--system"
    return f"; {flag} selects {other.path}" if other.is_installed() else ""


def _cluster_text(note: RunningCluster | None, *, is_active: bool) -> str:
    if note is not None:
        return f"running at {note.url or note.insecure_url}"
    return "starting" if is_active else "not running"


@command.command("status")
@cluster_options
@_user_option
def status_command(data_dir: str | None, name: str, is_user: bool) -> None:
    """Show the service of a cluster. The exit code is 1 unless it is active."""
    directory, service = cluster_dir(data_dir, name), ClusterService(name, is_user)
    if not service.is_installed():
        raise CliError(f"there is no service: {service.path} does not exist{_other_hint(service)}")
    active = service.systemctl("is-active", service.unit).stdout.strip() or "unknown"
    enabled = service.systemctl("is-enabled", service.unit).stdout.strip() or "unknown"
    note = directory.read_note_if_running() if directory.is_cluster else None
    click.echo(f"{service.unit}: {active}, {enabled}")
    click.echo(f"  unit     {service.path}")
    click.echo(f"  cluster  {_cluster_text(note, is_active=active == 'active')}")
    click.echo(f"  log      journalctl{' --user' if is_user else ''} -u {service.unit}")
    if active != "active":
        raise SystemExit(1)


MARK = "# Written by `sampan service install`; `sampan service uninstall` removes it."
_STOP_S = 120
_RESTRICTED_UNIT_LINES = (
    "# The nodes of this cluster run no containers, so that it needs few rights.",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
    "PrivateTmp=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)
_CONTAINER_UNIT_LINES = (
    "# Nodes create namespaces, mounts, cgroups and network rules.",
    "# Restrictions of system calls and mounts would apply to their pods, too.",
    "Delegate=yes",
    "TasksMax=infinity",
    "OOMScoreAdjust=-500",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    cluster: str
    data_dir: Path
    command: Sequence[str]
    """The program with its absolute path, and its arguments."""
    is_user: bool
    runs_containers: bool
    writes_elsewhere: bool
    """Whether flags name files outside of the data directory that the cluster writes."""


def unit_text(settings: ServiceSettings) -> str:
    target = "default.target" if settings.is_user else "multi-user.target"
    online = [] if settings.is_user else ["Wants=network-online.target", "After=network-online.target"]
    lines = [
        MARK,
        "[Unit]",
        f"Description=Sampan cluster {settings.cluster}",
        *online,
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(map(quote, settings.command))}",
        *(f"Environment={quote(f'{name}={value}')}" for name, value in _environment()),
        "Restart=on-failure",
        "RestartSec=2",
        "KillMode=mixed",
        f"TimeoutStopSec={_STOP_S}",
        "LimitNOFILE=1048576",
        "UMask=0077",
        *_restrictions(settings),
        "",
        "[Install]",
        f"WantedBy={target}",
    ]
    return "\n".join(lines) + "\n"


def _environment() -> list[tuple[str, str]]:
    """Return the variables of this process that decide where the files of a cluster are."""
    return [(name, os.environ[name]) for name in ("SAMPAN_HOME", "XDG_DATA_HOME") if os.environ.get(name)]


def _restrictions(settings: ServiceSettings) -> list[str]:
    if settings.runs_containers:
        user_lines = [line for line in _CONTAINER_UNIT_LINES if not line.startswith("OOMScoreAdjust")]
        return user_lines if settings.is_user else list(_CONTAINER_UNIT_LINES)
    lines = [*_RESTRICTED_UNIT_LINES]
    if not settings.writes_elsewhere:
        lines += ["ProtectSystem=strict", f"ReadWritePaths={quote(str(settings.data_dir))}"]
    if settings.is_user:  # the systemd manager of a user may not set these properties
        lines = [line for line in lines if not line.startswith(("CapabilityBoundingSet", "ProtectClock"))]
    return lines


def quote(word: str) -> str:
    """Return a word for a line of a unit, where %, $, quotes and backslashes have a meaning."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    is_plain = bool(word) and not any(letter.isspace() or letter in "'\"\\;" for letter in word)
    return escaped if is_plain else f'"{escaped}"'
