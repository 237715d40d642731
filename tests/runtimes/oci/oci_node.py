"""A node with an OCI runtime and one pod."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.host.clock import RealClock
from sampan.runtimes import contract, kernel
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import ContainerReport, collect_output
from sampan.runtimes.images import ImageStore, host
from sampan.runtimes.images.pull import ImagePuller
from sampan.runtimes.network import NoNetwork
from sampan.runtimes.oci.binary import find_programs
from sampan.runtimes.oci.runtime import OciRuntime
from tests.kubelet.container_config.builders import pod

PROGRAMS = find_programs()
POD = pod(uid="u1")


class Node:
    def __init__(self, directory: Path, puller: ImagePuller | None = None) -> None:
        self.directory, self.changed, self._puller = directory, asyncio.Event(), puller
        self.runtime = self.make()

    def make(self) -> OciRuntime:
        return OciRuntime(
            directory=self.directory / "node",
            images=ImageStore(self.directory / "images"),
            network=NoNetwork(),
            programs=PROGRAMS,
            clock=RealClock(),
            on_pod_change=lambda uid: self.changed.set(),
            puller=self._puller,
        )

    def sandbox(self, **fields: Any) -> SandboxConfig:
        """Return the configuration of a sandbox with a cgroup of its own: every test has a pod with the same uid."""
        config = SandboxConfig(
            uid="u1",
            namespace="ns",
            name="p",
            hostname="boat",
            log_directory=self.directory / "logs",
            cgroup_parent=f"/sampan-test-{os.getpid()}-{self.directory.name}",
        )
        return replace(config, **fields)

    def config(self, *command: str, **fields: Any) -> ContainerConfig:
        number = fields.get("attempt", 0)
        config = ContainerConfig(
            name="c",
            image=host.NAME,
            image_ref=host.ID,
            command=command,
            log_path=self.directory / f"logs/c/{number}.log",
        )
        return replace(config, **fields)

    async def start(self, *command: str, **fields: Any) -> str:
        config = self.config(*command, **fields)
        return await self.runtime.start_container(POD, (POD.spec.containers or [])[0], config.attempt, config)

    def report(self) -> ContainerReport:
        report = self.runtime.pod_report(POD).container("c")
        assert report is not None
        return report

    async def wait_for_exit(self) -> ContainerReport:
        while self.report().state != contract.EXITED:
            self.changed.clear()
            if self.report().state == contract.EXITED:
                break
            await self.changed.wait()
        return self.report()

    def log(self, number: int = 0) -> list[str]:
        text = (self.directory / f"logs/c/{number}.log").read_text()
        return [line.split(" ", 3)[3] for line in text.splitlines()]

    async def run(self, *command: str, **fields: Any) -> tuple[int, list[str]]:
        await self.start(*command, **fields)
        return (await self.wait_for_exit()).exit_code, self.log(fields.get("attempt", 0))

    async def exec(self, *command: str) -> tuple[int, bytes, bytes]:
        return await collect_output(await self.runtime.exec(POD, "c", command))


def shell(text: str) -> tuple[str, str, str]:
    return ("/bin/sh", "-c", text)


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Node]:
    node = Node(directory)
    async with node.runtime:
        try:
            yield node
        finally:
            await node.runtime.shut_down()
    assert kernel.mounts_below(directory) == []
    assert not (directory / "node/pods").exists() or list((directory / "node/pods").iterdir()) == []


def run_with_node(directory: Path, work: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(150), node(directory) as n:
            await work(n)

    asyncio.run(main())
