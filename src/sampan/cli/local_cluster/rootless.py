"""Run a command without root, as root of a user namespace of its own (rootless mode).

    sampan up                     the user's process, in the network of the machine: opens sockets, passes on signals
      |  socket pair
    init                          in new user, PID, mount, network and IPC namespaces: collects orphans
      |
    sampan up                     root of the user namespace

The namespaces end with the first process, however it ends: with them all containers, mounts, links and rules.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sampan.cluster.cluster_config import KUBELET
from sampan.host.linux.network_namespace import bring_up_loopback
from sampan.host.linux.outer_network import OuterNetwork, OuterSocketServer
from sampan.host.netlink.routing import encode_address, open_route_socket
from sampan.machinery.cli_errors import CliError
from sampan.runtimes.kernel import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC, mount
from sampan.runtimes.names import AUTO, OCI

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_SHARED = 1 << 20
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_CONNECTION = "SAMPAN_OUTER_NETWORK"
"""The environment variable with two numbers: the file descriptor of the socket to the outer process, and its process
ID."""
INNER_ADDRESS = "10.0.2.100"
"""The address in the inner network namespace at which pods reach the API server if no program provides outgoing
traffic."""
_OUTGOING_TIMEOUT_S = 5.0
_WIDTH = 80
PASTA, SLIRP = "pasta", "slirp4netns"
OUTGOING_PROGRAMS = (SLIRP, PASTA)
"""Programs that connect a network namespace with the network of the machine without privileges, in order of preference.
pasta is second because its early versions lose responses to pods."""


@dataclass(frozen=True, slots=True)
class OuterProcess:
    """The user's process outside of the namespaces, as seen by the inner process: its process ID and its network."""

    pid: int
    network: OuterNetwork


def outer_process() -> OuterProcess | None:
    """Return the outer process, or None if this process does not run in rootless mode. Only the first call returns it;
    programs that this process starts do not get it either."""
    text = os.environ.pop(_CONNECTION, "")
    if not text:
        return None
    descriptor, pid = (int(word) for word in text.split())
    os.set_inheritable(descriptor, False)
    return OuterProcess(pid, OuterNetwork(socket.socket(fileno=descriptor)))


def unsupported_reason() -> str:
    """Return why this user cannot have a user namespace with a network and mounts, or an empty string."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "there is no `unshare`"
    argv = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc", "true"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else f"the kernel does not allow user namespaces: {result.stderr.strip()}"


def reason_to_run_again(options: Mapping[str, Any]) -> str:
    """Return the message of `sampan up` before it runs again in rootless mode. Return an empty string if rootless mode
    is not needed or not possible."""
    wants_containers = options["runtime"] in (AUTO, OCI) and options["nodes"] != 0
    if not wants_containers or KUBELET not in options["components"].split(",") or not is_possible():
        return ""
    lines = [line for text in shortcomings() for line in _wrap_text(text)]
    return "\n".join(["running in a user namespace, as you are not root", *lines])


def _wrap_text(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def is_possible() -> bool:
    """Whether this process is not root, but can run containers as root of a user namespace."""
    from sampan.network.nft import nft_program
    from sampan.runtimes.oci.binary import find_binary

    has_programs = find_binary() is not None and nft_program() is not None
    return os.geteuid() != 0 and has_programs and not unsupported_reason()


def shortcomings() -> list[str]:
    """Return the limitations of rootless mode on this machine, each with its reason. Call it in the outer process."""
    has_range = shutil.which("newuidmap") is not None and subordinate_range("/etc/subuid", os.geteuid()) is not None
    return [
        "limits of CPU, memory and processes are not enforced: that needs cgroups, which need root",
        *([] if has_range else ["containers run only as root of the namespace: others need newuidmap and /etc/subuid"]),
        *([] if outgoing_program() else ["no outgoing traffic: it needs slirp4netns or pasta, and /dev/net/tun"]),
    ]


def inner_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of `sampan up` that differ in rootless mode. Without outgoing traffic the network namespace has
    no address that pods can reach, except the one that `run_inside` has added."""
    return {"advertise_address": options["advertise_address"] or (None if _has_route() else INNER_ADDRESS)}


def run_again(arguments: Sequence[str]) -> NoReturn:
    """Run `sampan ARGUMENTS` in rootless mode, and exit with the exit code of that process."""
    command = [sys.executable, "-m", "sampan", *arguments]
    raise SystemExit(run_inside(lambda: os.execv(command[0], command), has_outgoing=True))


def run_inside(call: Callable[[], object], *, has_outgoing: bool) -> int:
    """Call a function in a process that is root of new namespaces, and return the exit code of that process. With
    `has_outgoing`, connect its network namespace with the network of the machine, if a program for that is installed.
    The calling process must have a single thread, and is in the new user namespace afterwards."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    helper = _NamespaceHelper(has_outgoing=has_outgoing and bool(outgoing_program()))
    _unshare(_NEW_USER)
    helper.write_maps()
    _unshare(_NEW_PIDS)
    outer_pid = os.getpid()
    init = os.fork()
    if init == 0:
        ours.close()
        os.set_inheritable(theirs.fileno(), True)
        os.environ[_CONNECTION] = f"{theirs.fileno()} {outer_pid}"
        _run_and_exit(lambda: _run_init(helper, call))
    theirs.close()
    helper.release()
    return _serve(OuterSocketServer(ours), init)


# -- outer process ---------------------------------------------------------------------------------------------------


class _NamespaceHelper:
    """A process outside of the new namespaces, for the actions that only the user's own namespace permits. It maps
    users with `newuidmap`, and becomes the program for outgoing traffic."""

    def __init__(self, *, has_outgoing: bool) -> None:
        self._uid, self._gid, self._parent = os.geteuid(), os.getegid(), os.getpid()
        self._own_end, far_end = socket.socketpair()
        self.has_outgoing = has_outgoing
        self._pid = os.fork()
        if self._pid == 0:
            self._own_end.close()
            _run_and_exit(lambda: self._work(far_end))
        far_end.close()

    def write_maps(self) -> None:
        """Map the users of this process's new user namespace. Map the user's subordinate range if there is one,
        otherwise only the user itself as root."""
        self._own_end.sendall(b"m")
        if self._own_end.recv(1) == b"y":
            return
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {self._uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {self._gid} 1")

    def connect_network(self, pid: str) -> None:
        """Ask the helper to connect the network namespace of a process with the network of the machine. `pid` is the
        process ID outside of the namespaces."""
        self._own_end.sendall(pid.encode())

    def release(self) -> None:
        """Close the connection to the helper. The helper exits unless it has a network to connect."""
        self._own_end.close()

    def _work(self, connection: socket.socket) -> None:
        _die_with_parent()
        if not connection.recv(1):
            return
        connection.sendall(b"y" if self._map_range() else b"n")
        pid = connection.recv(16).decode()
        connection.close()
        if pid:
            argv = _outgoing_command(pid)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvp(argv[0], argv)

    def _map_range(self) -> bool:
        for program, own_id, ranges in (
            ("newuidmap", self._uid, "/etc/subuid"),
            ("newgidmap", self._gid, "/etc/subgid"),
        ):
            if shutil.which(program) is None or not (granted := subordinate_range(ranges, self._uid)):
                return False
            first, count = granted
            argv = [program, str(self._parent), "0", str(own_id), "1", "1", str(first), str(count)]
            if subprocess.run(argv, check=False, capture_output=True).returncode:
                return False
        return True


def subordinate_range(path: str, uid: int) -> tuple[int, int] | None:
    """Return the first of the user or group IDs that the administrator has granted to a user, and their number."""
    import pwd

    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    with contextlib.suppress(OSError, ValueError):
        for line in Path(path).read_text().splitlines():
            name, first, count = line.split(":")
            if name in names:
                return int(first), int(count)
    return None


def outgoing_program() -> str:
    """Return the program that can connect a network namespace with the network of the machine, or an empty string."""
    may_create_links = os.access("/dev/net/tun", os.R_OK | os.W_OK)
    return next((name for name in OUTGOING_PROGRAMS if may_create_links and shutil.which(name)), "")


def _outgoing_command(pid: str) -> list[str]:
    if outgoing_program() == PASTA:
        no_ports = [word for flag in ("-t", "-u", "-T", "-U") for word in (flag, "none")]
        return [PASTA, "--foreground", "--quiet", "--config-net", *no_ports, pid]
    return [SLIRP, "--configure", "--mtu=65520", "--disable-host-loopback", pid, "tap0"]


def _serve(server: OuterSocketServer, init: int) -> int:
    """Open sockets for the inner process and pass signals on to it until it exits. Return its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(init, number))
    exited = os.pidfd_open(init)
    watched: list[Any] = [server, exited]
    while exited not in (ready := select.select(watched, [], [])[0]):
        if server in ready and not server.serve_one():
            watched.remove(server)
    return os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])


# -- inner processes -------------------------------------------------------------------------------------------------


def _run_init(helper: _NamespaceHelper, call: Callable[[], object]) -> None:
    """Run as the first process of the PID namespace: prepare the namespaces, start the command, and reap orphaned
    processes until the command exits."""
    _die_with_parent()
    _prctl(_PR_SET_DUMPABLE, 1)  # allow the program for outgoing traffic to enter the namespaces
    outer_pid = os.readlink("/proc/self")  # /proc still shows the outer PID namespace
    _unshare(_NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC)
    mount("none", "/", "", MS_REC | _MS_SHARED)
    bring_up_loopback()
    _connect(helper, outer_pid)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    command = os.fork()
    if command == 0:
        _run_and_exit(call)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(command, number))
    while True:
        pid, status = os.wait()
        if pid == command:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _connect(helper: _NamespaceHelper, pid: str) -> None:
    """Wait until a program connects this network namespace with the network of the machine. If there is none, or it
    fails, add an address of the API server to the loopback interface."""
    if helper.has_outgoing:
        helper.connect_network(pid)
    helper.release()
    deadline = time.monotonic() + (_OUTGOING_TIMEOUT_S if helper.has_outgoing else 0)
    while not _has_route() and time.monotonic() < deadline:
        time.sleep(0.02)
    if not _has_route():
        with open_route_socket() as netlink:
            netlink.send(encode_address(socket.if_nametoindex("lo"), f"{INNER_ADDRESS}/32"))


def _has_route() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return True
    return False


def _run_and_exit(call: Callable[[], object]) -> NoReturn:
    """Call a function in a forked process, and exit. The exit code is 0, that of a SystemExit or CliError, or 1."""
    code = 1
    try:
        call()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except CliError as error:
        error.show()
        code = error.exit_code
    except OSError as error:
        print(f"Error: rootless mode: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _unshare(flags: int) -> None:
    if _libc().unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot create namespaces: {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    _libc().prctl(option, value, 0, 0, 0)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
