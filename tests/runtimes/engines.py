"""Real containerd and real Docker for tests, each in its own directories, which are removed after the test."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.runtimes import kernel
from sampan.runtimes.cri.client import CriClient
from sampan.runtimes.docker.client import DockerClient
from sampan.runtimes.images import pause
from tests.eventually import wait_until
from tests.reservations import reserved_subnet
from tests.runtimes.images.builders import Files, MadeImage, docker_archive
from tests.skips import find_missing

BUSYBOX = "sampan.local/busybox:1"
_START_S = 90.0
_PLUGINS = Path("/usr/lib/cni")
_CGROUPS = Path("/sys/fs/cgroup")
_UNUSED = ("aufs", "btrfs", "devmapper", "zfs")
_APPLETS = (
    *("awk", "cat", "chmod", "cut", "dd", "echo", "env", "false", "grep", "head", "hostname", "id", "ip", "kill", "ls"),
    *("mount", "nc", "printf", "ps", "rm", "sh", "sleep", "stty", "tail", "test", "touch", "tr", "true", "wc", "yes"),
)


def missing_requirement(*programs: str) -> str:
    """Return why real engines cannot run on this machine, or an empty string if they can."""
    if missing := find_missing("root", "busybox", *programs):
        return missing
    if "containerd" in programs and not (_PLUGINS / "bridge").exists():
        return "not here: standard CNI plugins"
    return "" if _is_static(Path(shutil.which("busybox") or "")) else "busybox is not static (busybox-static)"


def _is_static(program: Path) -> bool:
    return b"ld-linux" not in program.read_bytes()[:4096]


def busybox_image(says: str = "image") -> MadeImage:
    program = Path(shutil.which("busybox") or "").read_bytes()
    files: Files = {"bin": None, "etc": None, "tmp": None, "bin/busybox": program}
    files |= {f"bin/{name}": "busybox" for name in _APPLETS}
    files["etc/passwd"] = b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:1234:app:/tmp:/bin/sh\n"
    files["etc/group"] = b"root:x:0:\napp:x:1234:\nmore:x:4321:app\n"
    return MadeImage(files, pack=bytes, Env=["PATH=/bin", f"FROM={says}"], Cmd=["/bin/sh"])


@dataclass(frozen=True, kw_only=True)
class Engine:
    directory: Path
    """A directory with a short path, because paths of sockets are limited in length."""
    socket: Path


@contextmanager
def scratch_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="sampan-", dir="/tmp"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        for path in kernel.mounts_below(directory):
            kernel.unmount(path)
        shutil.rmtree(directory)


@contextmanager
def containerd(*, has_network: bool = True) -> Iterator[Engine]:
    """Run containerd. Without a network, the test must write a conflist."""
    with ExitStack() as stack:
        stack.enter_context(_engine_cgroups("k8s.io"))
        directory = stack.enter_context(scratch_directory())
        socket_path = directory / "c.sock"
        (directory / "config.toml").write_text(_containerd_config(directory, socket_path))
        (directory / "cni").mkdir()
        if has_network:
            _write_network(directory, stack.enter_context(reserved_subnet("198.18")))
        argv = ["containerd", "--config", str(directory / "config.toml"), "--log-level", "error"]
        with _running_daemon(argv, directory / "containerd.log", socket_path):
            ctr = ["ctr", "--address", str(socket_path), "--namespace", "k8s.io", "images", "import"]
            subprocess.run([*ctr, str(_archive(directory))], check=True, capture_output=True, timeout=60)
            try:
                yield Engine(directory=directory, socket=socket_path)
            finally:
                _run_in_thread(_remove_sandboxes(socket_path))
        _remove_bridge(directory)


@contextmanager
def docker(*, has_network: bool = False) -> Iterator[Engine]:
    """Run Docker. With a network, it creates its bridge and its iptables rules, as for its own containers."""
    with _engine_cgroups("docker", "moby"), scratch_directory() as directory:
        socket_path = directory / "d.sock"
        argv = ["dockerd", "--host", f"unix://{socket_path}", "--data-root", str(directory / "data")]
        argv += ["--exec-root", str(directory / "exec"), "--pidfile", str(directory / "pid"), "--log-level", "error"]
        argv += ["--config-file", str(directory / "none.json")]
        argv += [] if has_network else ["--iptables=false", "--ip6tables=false", "--bridge=none"]
        (directory / "none.json").write_text("{}")
        argv += ["--oom-score-adjust", "0"]
        with _running_daemon(argv, directory / "dockerd.log", socket_path):
            _load(socket_path, _archive(directory))
            yield Engine(directory=directory, socket=socket_path)


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread, because the caller may run in an event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()


async def _remove_sandboxes(socket_path: Path) -> None:
    """Remove the sandboxes that failed tests have left, which would outlive their engine."""
    client = CriClient(str(socket_path))
    try:
        for row in (await client.runtime("ListPodSandbox")).items:
            for name in ("StopPodSandbox", "RemovePodSandbox"):
                await client.runtime(name, client.schema.SandboxRequest(pod_sandbox_id=row.id))
    finally:
        await client.close()


@contextmanager
def _engine_cgroups(*names: str) -> Iterator[None]:
    """Remove the cgroups that engines share after the last engine of all tests: another engine may be about to create
    the cgroup of a container in an empty one."""
    lock = os.open(_CGROUPS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_cgroups(*names)
    finally:
        os.close(lock)


def _remove_cgroups(*names: str) -> None:
    for name in names:
        for cgroup in _CGROUPS.glob(f"*/{name}"):
            with suppress(OSError):
                cgroup.rmdir()


def _load(socket_path: Path, archive: Path) -> None:
    async def main() -> None:
        client = DockerClient(str(socket_path))
        try:
            with archive.open("rb") as file:
                await client.post("/images/load", {"quiet": "true"}, file)
        finally:
            await client.close()

    asyncio.run(main())


def _archive(directory: Path) -> Path:
    return docker_archive(directory / "busybox.tar", busybox_image(), BUSYBOX)


def _containerd_config(directory: Path, socket_path: Path) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    unused = [f"io.containerd.snapshotter.v1.{name}" for name in _UNUSED]
    return f"""
version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = {json.dumps(unused)}
[grpc]
address = "{socket_path}"
[{cri}]
sandbox_image = "{pause.NAME}"
stream_server_address = "127.0.0.1"
stream_server_port = "0"
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{_PLUGINS}"
conf_dir = "{directory}/cni"
[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _bridge(directory: Path) -> str:
    return f"st{directory.name[-10:]}"


def _write_network(directory: Path, subnet: str) -> None:
    """Write a conflist with a bridge without masquerading: pods and the machine reach each other."""
    link = {
        "type": "bridge",
        "bridge": _bridge(directory),
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(directory / "addresses"),
            "ranges": [[{"subnet": subnet}]],
        },
    }
    plugins = {"cniVersion": "0.4.0", "name": "tests", "plugins": [link]}
    (directory / "cni" / "10-tests.conflist").write_text(json.dumps(plugins))


def _remove_bridge(directory: Path) -> None:
    subprocess.run(["ip", "link", "delete", _bridge(directory)], capture_output=True, check=False, timeout=10)


@contextmanager
def _running_daemon(argv: Sequence[str], log: Path, socket_path: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, env=_environment()
        )
    try:
        _wait(process, log, socket_path)
        yield
    finally:
        _end(process)


def _environment() -> dict[str, str]:
    sbin = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return {**os.environ, "PATH": sbin, "DOCKER_RAMDISK": "1"}


def _wait(process: subprocess.Popen[bytes], log: Path, socket_path: Path) -> None:
    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} does not start:\n{log.read_text()[-3000:]}")
        return _accepts(socket_path)

    wait_until(is_ready, timeout_s=_START_S, poll_s=0.05, describe=lambda: log.read_text()[-3000:])


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(str(path))
        except OSError:
            return False
        return True


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
