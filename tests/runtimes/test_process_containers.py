"""Plain processes as containers, for any user."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container
from sampan.host.clock import RealClock
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerConfig, ContainerSecurity, Mount, SandboxConfig
from sampan.runtimes.contract import ContainerReport, ContainerUser, RuntimeFailure, collect_output
from sampan.runtimes.images import host
from sampan.runtimes.process import ProcessRuntime, refusal, unsupported_features
from tests.eventually import eventually
from tests.kubelet.container_config.builders import pod

POD = pod(uid="u1")


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory, self.changed = directory, asyncio.Event()
        self.runtime = self.make()

    def make(self) -> ProcessRuntime:
        return ProcessRuntime(
            directory=self.directory / "node", clock=RealClock(), on_pod_change=lambda uid: self.changed.set()
        )

    async def sandbox(self) -> None:
        config = SandboxConfig(uid="u1", namespace="ns", name="p", log_directory=self.directory / "logs")
        await self.runtime.run_sandbox(POD, config)

    async def start(self, *command: str, **fields: Any) -> str:
        log = self.directory / "logs/c/0.log"
        config = ContainerConfig(name="c", image=host.NAME, image_ref=host.ID, command=command, log_path=log)
        config = replace(config, **fields)
        return await self.runtime.start_container(POD, (POD.spec.containers or [])[0], config.attempt, config)

    def report(self) -> ContainerReport:
        report = self.runtime.pod_report(POD).container("c")
        assert report is not None
        return report

    async def wait_for_exit(self) -> ContainerReport:
        while self.report().state != contract.EXITED:
            self.changed.clear()
            await self.changed.wait()
        return self.report()

    def log(self) -> list[str]:
        return [line.split(" ", 3)[3] for line in (self.directory / "logs/c/0.log").read_text().splitlines()]


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Node]:
    node = Node(directory)
    async with node.runtime:
        try:
            yield node
        finally:
            await node.runtime.shut_down()


def run_with_node(directory: Path, work: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), node(directory) as n:
            await work(n)

    asyncio.run(main())


def test_container_lifecycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_SAMPAN", "secret-value")

    async def work(n: Node) -> None:
        await n.sandbox()
        await n.start("sh", "-c", "echo $GREETING$SECRET_OF_SAMPAN; sleep 60 & exit 3", env=[("GREETING", "hi")])
        ended = await n.wait_for_exit()
        assert (ended.exit_code, ended.reason, n.log()) == (3, "Error", ["hi"])
        assert n.runtime.pod_report(POD).ips == ["127.0.0.1"]
        await n.runtime.remove_pod("u1")
        assert n.runtime.list_pod_uids() == []

    run_with_node(tmp_path, work)


def test_stop_kills_child_processes_of_the_container(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.sandbox()
        await n.start("sh", "-c", "sleep 61 & echo $!; wait")
        await eventually(lambda: bool(n.log()))
        child = int(n.log()[0])
        assert [usage.processes for usage in await n.runtime.stats(POD)] == [2]
        await n.runtime.stop_container(POD, "c", 30)
        await n.wait_for_exit()
        await eventually(lambda: not (Path("/proc") / str(child)).exists())

    run_with_node(tmp_path, work)


def test_exit_is_reported_although_its_record_cannot_be_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(n: Node) -> None:
        await n.sandbox()
        for attempt, code in enumerate((3, 4)):  # the monitor must still report the second exit
            await n.start("sh", "-c", f"read line; exit {code}", has_stdin=True, attempt=attempt)
            (record,) = (tmp_path / "node/pods/u1/c").glob("*/record.json")
            record.unlink()
            (record / "in the way").mkdir(parents=True)
            stream = await n.runtime.attach(POD, "c", has_stdin=True)
            await stream.write(b"\n")
            assert (await n.wait_for_exit()).exit_code == code
            await stream.close()
            await n.runtime.remove_container(POD, n.report().id)

    run_with_node(tmp_path, work)
    assert "cannot save the exit status of container" in caplog.text


def test_exec_and_survival_of_a_runtime_restart(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.sandbox()
        await n.start("sleep", "60", env=[("A", "1")])
        stream = await n.runtime.exec(POD, "c", ["sh", "-c", "echo $A; exit 4"])
        assert await collect_output(stream) == (4, b"1\n", b"")
        with pytest.raises(RuntimeFailure, match="No such file"):
            await n.runtime.exec(POD, "c", ["/no/such"])
        await n.runtime.__aexit__(None, None, None)
        n.runtime = n.make()
        await n.runtime.__aenter__()
        assert n.report().state == contract.RUNNING
        await n.runtime.stop_container(POD, "c", 0)
        assert (await n.wait_for_exit()).exit_code == 137

    run_with_node(tmp_path, work)


def test_unsupported_images_programs_and_volumes_are_rejected(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.sandbox()
        other = json.from_value({"name": "c", "image": "nginx"}, Container)
        with pytest.raises(RuntimeFailure, match="only programs of the machine"):
            await n.runtime.pull_image(POD, other, None)
        with pytest.raises(RuntimeFailure, match="/no/such/program"):
            await n.start("/no/such/program")
        with pytest.raises(RuntimeFailure, match="cannot have a volume at /data"):
            await n.start("true", mounts=[Mount(source=tmp_path, target="/data")])
        (container,) = n.runtime.pod_report(POD).containers
        assert (container.state, container.exit_code, container.reason) == ("exited", 128, "StartError")

    run_with_node(tmp_path, work)


@pytest.mark.parametrize(
    ("security", "uid", "text"),
    [
        (ContainerSecurity(), 1000, ""),
        (ContainerSecurity(user=1000), 1000, ""),
        (ContainerSecurity(user=7), 1000, "with the runtime process a container cannot run as user 7"),
        (ContainerSecurity(user=7), 0, ""),
        (
            ContainerSecurity(is_privileged=True, is_root_read_only=True),
            1000,
            "with the runtime process a container cannot be privileged, nor have a read-only root",
        ),
    ],
)
def test_unsupported_security_settings_are_named(security: ContainerSecurity, uid: int, text: str) -> None:
    config = ContainerConfig(name="c", image="i", log_path=Path("/l"), security=security)
    assert refusal(unsupported_features(config, uid)) == text


def test_users_and_groups(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.sandbox()
        await n.start("/bin/sh", "-c", "exit 0")
        assert (await n.wait_for_exit()).user == ContainerUser(os.geteuid(), os.getegid(), tuple(os.getgroups()))
        if os.geteuid() == 0:
            strict = ContainerSecurity(supplemental_groups=[77], supplemental_policy="Strict")
            await n.start("/bin/sh", "-c", "id -G", attempt=1, security=strict)
            assert (await n.wait_for_exit()).user == ContainerUser(0, 0, (0, 77))
            assert n.log() == ["0 77"]

    run_with_node(tmp_path, work)


@pytest.mark.parametrize("uid", [0, 1000])
def test_supplemental_groups_policy_is_supported_only_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int
) -> None:
    async def work(n: Node) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        assert (await n.runtime.status()).heeds_groups_policy is (uid == 0)
        monkeypatch.undo()

    run_with_node(tmp_path, work)
