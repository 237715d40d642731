"""A runtime with pods on it, with which most checks start."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sampan.api.types.core_v1 import Container, Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import ContainerReport, Runtime, RuntimeFailure, collect_output
from sampan.testing.runtime_conformance.subject import Subject

_TIMEOUT_S = 60.0
_POLL_S = 0.05
FOREVER = ("/bin/sh", "-c", "exec sleep 1000000")
NAME = "c"


class RuntimeBench:
    def __init__(self, subject: Subject, runtime: Runtime, changed_pods: list[str]) -> None:
        self.subject, self.runtime, self.changed_pods = subject, runtime, changed_pods
        self.uids: list[str] = []

    # -- creating pods and containers --------------------------------------------------------------------------------

    def pod(self, *names: str, **container: Any) -> Pod:
        """Return a new pod that the runtime does not know yet."""
        uid = str(uuid.uuid4())
        self.uids.append(uid)
        containers = [Container(name=name, image=self.subject.image, **container) for name in names or (NAME,)]
        return Pod(metadata=ObjectMeta(name="boat", namespace="checks", uid=uid), spec=PodSpec(containers=containers))

    def sandbox_config(self, pod: Pod, **fields: Any) -> SandboxConfig:
        meta = pod.metadata
        config = SandboxConfig(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            hostname="boat",
            log_directory=self.subject.directory / "logs" / meta.uid,
            cgroup_parent=cgroup_parent(meta.uid),
        )
        return replace(config, **fields)

    async def sandbox(self, *names: str, **fields: Any) -> Pod:
        """Return a pod with a running sandbox."""
        pod = self.pod(*names)
        await self.runtime.run_sandbox(pod, self.sandbox_config(pod, **fields))
        return pod

    def config(self, pod: Pod, command: Sequence[str], name: str = NAME, attempt: int = 0, **fields: Any) -> Any:
        config = ContainerConfig(
            name=name,
            attempt=attempt,
            image=self.subject.image,
            command=list(command),
            log_path=self.subject.directory / "logs" / pod.metadata.uid / name / f"{attempt}.log",
        )
        return replace(config, **fields)

    async def start(
        self,
        pod: Pod,
        command: str | Sequence[str],
        name: str = NAME,
        attempt: int = 0,
        *,
        ends: int | None = None,
        **fields: Any,
    ) -> str:
        """Start a container and return its ID. A command that is a string is run by a shell. `ends` is the expected
        exit code of a container that exits on its own."""
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        self.subject.prepare(pod, name, ends)
        spec = next(container for container in pod.spec.containers or () if container.name == name)
        config = self.config(pod, argv, name, attempt, **fields)
        return await self.runtime.start_container(pod, spec, attempt, config)

    async def run(self, pod: Pod, command: str | Sequence[str], name: str = NAME, **fields: Any) -> list[str]:
        """Run a container until it exits successfully; return the lines of its log."""
        await self.start(pod, command, name, **fields)
        report = await self.wait_for_exit(pod, name)
        lines = self.log(pod, name)
        assert report.exit_code == 0, f"{command!r} exited with code {report.exit_code} ({report.reason}): {lines}"
        return lines

    # -- observing ---------------------------------------------------------------------------------------------------

    def report(self, pod: Pod, name: str = NAME) -> ContainerReport:
        report = self.runtime.pod_report(pod).container(name)
        assert report is not None, f"there is no container {name}"
        return report

    async def wait_for_exit(self, pod: Pod, name: str = NAME) -> ContainerReport:
        await wait_until(lambda: self.report(pod, name).state == contract.EXITED, f"container {name} does not exit")
        return self.report(pod, name)

    def log(self, pod: Pod, name: str = NAME, *, previous: bool = False) -> list[str]:
        """Return the lines of a log without their CRI prefix."""
        path = self.runtime.log_file(pod, name, previous=previous)
        assert path is not None, f"{name} has no log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    async def exec(self, pod: Pod, command: str | Sequence[str], name: str = NAME) -> tuple[int, str, str]:
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        code, out, err = await collect_output(await self.runtime.exec(pod, name, argv))
        return code, out.decode(), err.decode()

    async def output(self, pod: Pod, command: str, name: str = NAME) -> str:
        """Return the output of a command that must succeed."""
        code, out, err = await self.exec(pod, command, name)
        assert code == 0, f"{command!r} exited with code {code}: {out} {err}"
        return out.strip()


async def wait_until(holds: Callable[[], bool], otherwise: str, *, timeout_s: float = _TIMEOUT_S) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, otherwise
        await asyncio.sleep(_POLL_S)


async def expect_failure(work: Awaitable[Any]) -> RuntimeFailure:
    failures: list[RuntimeFailure] = []
    try:
        await work
    except RuntimeFailure as failure:
        failures.append(failure)
    assert failures, "RuntimeFailure was not raised"
    assert failures[0].message, "a RuntimeFailure must have a message"
    assert failures[0].reason, "a RuntimeFailure must have a reason"
    return failures[0]


@asynccontextmanager
async def open_bench(subject: Subject, *, keeps: bool = False) -> AsyncIterator[RuntimeBench]:
    """Yield a bench; afterwards remove its pods and check that nothing is left, unless `keeps` is set."""
    changed_uids: list[str] = []
    async with subject.open(changed_uids.append) as runtime:
        workbench = RuntimeBench(subject, runtime, changed_uids)
        try:
            yield workbench
        finally:
            for uid in workbench.uids if not keeps else ():
                await runtime.remove_pod(uid)
        for uid in workbench.uids if not keeps else ():
            assert uid not in runtime.list_pod_uids(), f"the runtime still reports pod {uid}"
            await wait_until(lambda uid=uid: not subject.left(uid), f"left behind: {subject.left(uid)}")  # type: ignore[misc]


def cgroup_parent(uid: str) -> str:
    """Return the cgroup of a pod, below a cgroup of the test process. Each test process has one, and removes it when
    its last pod is gone."""
    return f"/sampan-checks-{os.getpid()}/{uid}"
