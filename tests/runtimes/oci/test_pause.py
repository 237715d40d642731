"""The pause container, as a hostile container of its pod sees it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sampan.runtimes.config import ContainerSecurity, NamespaceOptions
from sampan.runtimes.contract import RuntimeFailure
from tests.runtimes.oci.oci_node import POD, PROGRAMS, Node, run_with_node, shell
from tests.skips import requires

pytestmark = requires("root", "crun or runc")

SHARED = NamespaceOptions(pid="pod")
PTRACE = ContainerSecurity(added=("SYS_PTRACE",))


@pytest.fixture(params=list(PROGRAMS))
def run_in_pod(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[Node], Awaitable[None]]], None]:
    """Return a function that runs a test with a pod whose containers share a PID namespace, with crun and with runc."""

    def run(work: Callable[[Node], Awaitable[None]]) -> None:
        async def with_sandbox(node: Node) -> None:
            await node.runtime.run_sandbox(POD, node.sandbox(namespaces=SHARED, handler=request.param))
            await work(node)

        run_with_node(tmp_path, with_sandbox)

    return run


def test_process_1_shows_nothing_of_the_machine(
    run_in_pod: Callable[[Callable[[Node], Awaitable[None]]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPAN_TEST_CREDENTIAL", "secret")

    async def work(node: Node) -> None:
        script = "tr '\\0' '\\n' < /proc/1/environ; cat /proc/1/mountinfo /proc/1/cgroup; readlink /proc/1/exe"
        _, lines = await node.run(*shell(script), namespaces=SHARED, security=PTRACE)
        assert lines[-1] == "/pause"
        text = "\n".join(lines)
        assert "SAMPAN_TEST_CREDENTIAL" not in text
        assert str(tmp_path) not in text
        assert tmp_path.name not in text
        _, names = await node.run(*shell("ls -A /proc/1/root"), attempt=1, namespaces=SHARED, security=PTRACE)
        assert sorted(names) == ["dev", "pause", "proc", "sys"]

    run_in_pod(work)


def test_process_1_is_confined(run_in_pod: Callable[[Callable[[Node], Awaitable[None]]], None]) -> None:
    async def work(node: Node) -> None:
        script = "grep -E '^(Uid|Gid|Cap...|NoNewPrivs|Seccomp):' /proc/1/status"
        _, lines = await node.run(*shell(script), namespaces=SHARED)
        status = dict(line.split(":\t", 1) for line in lines)
        assert status.pop("Uid") == status.pop("Gid") == "65535\t65535\t65535\t65535"
        assert (status.pop("NoNewPrivs"), status.pop("Seccomp")) == ("1", "2")
        assert set(status.values()) == {"0" * 16}

    run_in_pod(work)


@pytest.mark.parametrize("file", ["x", "proc/sysrq-trigger", "proc/sys/kernel/hostname", "sys/kernel/mm/ksm/run"])
def test_the_files_of_process_1_are_read_only(
    run_in_pod: Callable[[Callable[[Node], Awaitable[None]]], None], file: str
) -> None:
    async def work(node: Node) -> None:
        script = f"(echo 0 > /proc/1/root/{file}) 2> /dev/null || echo refused; ls /proc/1/root/sys/firmware | wc -l"
        _, lines = await node.run(*shell(script), namespaces=SHARED, security=PTRACE)
        assert lines == ["refused", "0"]

    run_in_pod(work)


def test_process_1_is_in_the_cgroup_of_the_pod(run_in_pod: Callable[..., None], tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        pid = await asyncio.to_thread((tmp_path / "node/pods/u1/pause/pid").read_text)
        text = await asyncio.to_thread(Path(f"/proc/{pid}/cgroup").read_text)
        assert f"/sampan-test-{os.getpid()}-{tmp_path.name}/pause-u1-" in text

    run_in_pod(work)


def test_process_1_reaps_orphaned_processes(run_in_pod: Callable[..., None]) -> None:
    async def work(node: Node) -> None:
        look = "grep -qs 'State:.Z' /proc/[0-9]*/status"  # processes end while it reads
        script = f"sh -c 'true & exec true'; while {look}; do :; done; echo reaped"
        assert await node.run(*shell(script), namespaces=SHARED) == (0, ["reaped"])

    run_in_pod(work)


def test_containers_share_the_namespace_after_a_restart_of_the_kubelet(run_in_pod: Callable[..., None]) -> None:
    async def work(node: Node) -> None:
        await node.runtime.__aexit__()
        node.runtime = node.make()
        await node.runtime.__aenter__()
        _, lines = await node.run(*shell("cat /proc/1/comm"), namespaces=SHARED)
        assert lines == ["pause"]

    run_in_pod(work)


def test_containers_join_no_other_namespace_after_the_end_of_process_1(run_in_pod: Callable[..., None]) -> None:
    """A container ends process 1, whose pid may then be that of any process. The pod needs a new sandbox."""

    async def work(node: Node) -> None:
        await node.start(*shell("kill -TERM 1; sleep 60"), namespaces=SHARED)
        await node.wait_for_exit()
        while node.runtime.pod_report(POD).is_sandbox_ready:
            node.changed.clear()
            if node.runtime.pod_report(POD).is_sandbox_ready:
                await node.changed.wait()
        with pytest.raises(RuntimeFailure, match="no sandbox"):
            await node.start("/bin/true", attempt=1, namespaces=SHARED)
        assert node.runtime._pods["u1"].spaces["pid"].startswith(str(node.directory))
        await node.runtime.run_sandbox(POD, node.runtime._pods["u1"].config)
        _, lines = await node.run(*shell("cat /proc/1/comm"), attempt=2, namespaces=SHARED)
        assert lines == ["pause"]

    run_in_pod(work)


def test_an_ephemeral_container_joins_no_container_that_has_ended(run_in_pod: Callable[..., None]) -> None:
    async def work(node: Node) -> None:
        id = await node.start("/bin/true")
        await node.wait_for_exit()
        with pytest.raises(RuntimeFailure, match="target container is not running"):
            await node.start("/bin/true", attempt=1, namespaces=NamespaceOptions(pid="target", target=id))

    run_in_pod(work)
