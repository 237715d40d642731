"""The test library runs on other systems than Linux: it needs no module, function or file of Linux only."""

import subprocess
import sys

SIMULATED_MACOS = """
import os, resource, select, signal, socket, sys, time, urllib.request, zoneinfo  # imported before sys.platform changes
sys.platform = "darwin"

LINUX_ONLY = {
    os: "sched_getaffinity sched_setaffinity memfd_create eventfd pidfd_open splice fdatasync posix_fadvise setns "
        "unshare getrandom copy_file_range O_DIRECT O_PATH O_TMPFILE SCHED_BATCH getresuid setresuid",
    select: "epoll EPOLLIN EPOLLET EPOLLEXCLUSIVE",
    signal: "SIGRTMIN SIGRTMAX SIGPWR SIGSTKFLT",
    socket: "AF_NETLINK AF_PACKET AF_VSOCK AF_ALG SO_BINDTODEVICE SO_PEERCRED TCP_USER_TIMEOUT SOCK_CLOEXEC accept4",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
    resource: "prlimit",
}
for module, names in LINUX_ONLY.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pyroute2", "systemd", "dbus", "spwd", "ossaudiodev", "inotify"}:
            raise ImportError(f"{name} is not for this system")


sys.meta_path.insert(0, Blocked())


def block_linux_files(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "there is no such file on this system", arguments[0])


sys.addaudithook(block_linux_files)
"""

USE = """
from sampan.testing import Cluster
from sampan.testing.builders import pod
from sampan.api.types.core_v1 import Pod

for store in ("memory", "sqlite"):
    with Cluster(store=store, insecure=True) as cluster, cluster.namespace() as namespace:
        cluster.run(cluster.client.for_kind(Pod).create(pod("web"), namespace))
        for path in ("/api/v1/pods", "/metrics", "/readyz"):
            with urllib.request.urlopen(cluster.insecure_url + path, timeout=60) as response:
                assert response.status == 200
print("ok")
"""


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_cluster_runs_without_linux_only_features() -> None:
    done = run(SIMULATED_MACOS + USE)
    assert done.stdout == "ok\n", done.stderr


def test_simulated_system_lacks_linux_only_features() -> None:
    for line in ("import pyroute2", "import os; os.memfd_create('x')", "open('/proc/self/stat')"):
        assert run(f"{SIMULATED_MACOS}\n{line}").returncode != 0
