"""A cluster of `sampan up` in a process of its own, whose CPU time and memory are measured."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.cli.command import Sampan, wait_until_ready
from tests.ports import free_port


class RunningCluster(NamedTuple):
    url: str
    """The insecure port of the API server."""
    secure_url: str
    pid: int


@contextmanager
def running_cluster(*flags: str, home: Path | None = None) -> Iterator[RunningCluster]:
    """Start a cluster, by default in a temporary directory, and yield it when it is ready."""
    with ExitStack() as stack:
        home = home or Path(stack.enter_context(TemporaryDirectory()))
        port, secure_port = free_port(), free_port()
        ports = ("--secure-port", str(secure_port), "--insecure-port", str(port))
        process = stack.enter_context(Sampan(home).running_command("up", *ports, *flags))
        cluster = RunningCluster(f"http://127.0.0.1:{port}", f"https://127.0.0.1:{secure_port}", process.pid)
        wait_until_ready(cluster.url)
        yield cluster
