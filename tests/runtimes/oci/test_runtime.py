"""Real containers by crun or runc."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from sampan.runtimes import contract
from sampan.runtimes.config import ContainerResources, ContainerSecurity, Mount, NamespaceOptions, SecurityProfile
from sampan.runtimes.contract import RuntimeFailure, collect_output
from sampan.runtimes.oci import runtime
from tests.eventually import eventually
from tests.runtimes.oci.oci_node import POD, PROGRAMS, Node, run_with_node, shell
from tests.skips import requires

pytestmark = requires("root", "crun or runc")

ECHO = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline())
socketserver.TCPServer(("127.0.0.1", 8080), Echo).serve_forever()
"""


def test_pod_lifecycle(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        code, lines = await n.run(
            *shell("hostname; echo $GREETING; id -u; ls /root /home; exit 3"), env=[("GREETING", "hi")]
        )
        assert (code, lines) == (3, ["boat", "hi", "0", "/home:", "", "/root:"])
        assert n.report().reason == "Error"
        assert n.runtime.list_pod_uids() == ["u1"]
        code, lines = await n.run(*shell("exit 0"), attempt=1)
        report = n.runtime.pod_report(POD)
        assert [container.attempt for container in report.containers] == [1]
        assert [report.exit_code for report in report.before] == [3]
        await n.runtime.remove_pod("u1")
        assert n.runtime.list_pod_uids() == []

    run_with_node(tmp_path, work)


def test_a_runtime_class_chooses_the_program(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        status = await n.runtime.status()
        assert [handler.name for handler in status.handlers] == ["", *sorted(PROGRAMS)]
        for number, name in enumerate(PROGRAMS):
            await n.runtime.run_sandbox(POD, n.sandbox(handler=name))
            assert await n.run(*shell("echo here"), attempt=number) == (0, ["here"])
            assert (tmp_path / "node/state" / name).is_dir()
        with pytest.raises(RuntimeFailure, match='no runtime for "other" is configured'):
            await n.runtime.run_sandbox(POD, n.sandbox(handler="other"))

    run_with_node(tmp_path, work)


def test_container_sees_no_private_files_of_the_machine(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        places = "/etc/shadow $HOME/.ssh /var/lib/dpkg /etc/ssh"
        script = f"for f in {places}; do test -e $f && echo $f; done; cat /proc/1/comm"
        code, lines = await n.run(*shell(script))
        assert (code, lines) == (0, ["sh"])

    run_with_node(tmp_path, work)


@requires("keytool")
def test_java_programs_of_the_machine_run(tmp_path: Path) -> None:
    """Java reads its security configuration and the certificates of the system below /etc."""

    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        code, lines = await n.run(*shell("java -version 2>&1 && keytool -list -cacerts -storepass changeit 2>&1"))
        assert code == 0, lines
        assert any("trustedCertEntry" in line for line in lines)

    run_with_node(tmp_path, work)


def test_writes_do_not_reach_the_machine(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        code, _ = await n.run(*shell("echo x > /usr/sampan-was-here && echo y > /file"))
        assert code == 0
        assert "sampan-was-here" not in os.listdir("/usr")
        code, lines = await n.run(*shell("touch /x"), attempt=1, security=ContainerSecurity(is_root_read_only=True))
        assert code != 0
        assert "Read-only file system" in lines[0]

    run_with_node(tmp_path, work)


def test_exec_and_terminal(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start("sleep", "60")
        assert await n.exec("sh", "-c", "echo out; echo err >&2; exit 5") == (5, b"out\n", b"err\n")
        stream = await n.runtime.exec(
            POD, "c", ["sh", "-c", "read x; stty size; echo $x"], has_stdin=True, has_tty=True
        )
        await stream.resize(70, 20)
        await stream.write(b"hello\n")
        code, out, _ = await collect_output(stream)
        assert code == 0
        assert out.replace(b"\r", b"").endswith(b"hello\n")
        with pytest.raises(RuntimeFailure, match="is not running"):
            await n.runtime.exec(POD, "other", ["true"])

    run_with_node(tmp_path, work)


def test_attach_with_a_terminal(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start(*shell("test -t 0 && read x && echo got $x"), has_stdin=True, has_tty=True)
        stream = await n.runtime.attach(POD, "c", has_stdin=True)
        await stream.write(b"hello\n")
        while (piece := await stream.read()) is not None:
            if b"got hello" in piece[1]:
                break
        await stream.close()
        assert (await n.wait_for_exit()).exit_code == 0

    run_with_node(tmp_path, work)


def test_stop_with_and_without_grace_period(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start(*shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
        await eventually(lambda: bool(n.log()))
        await n.runtime.stop_container(POD, "c", 600)
        assert ((await n.wait_for_exit()).exit_code, n.log()) == (0, ["ready", "bye"])
        await n.start(*shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"), attempt=1)
        await n.runtime.stop_container(POD, "c", 30)
        await n.runtime.stop_container(POD, "c", 0)
        assert (await n.wait_for_exit()).exit_code == 137

    run_with_node(tmp_path, work)


def test_user_capabilities_and_seccomp_of_a_container(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        security = ContainerSecurity(user=1234, group=5678, supplemental_groups=[77], may_not_gain_privileges=True)
        _, lines = await n.run(
            *shell("id -u; id -g; id -G; grep -E 'CapEff|NoNewPrivs' /proc/self/status"), security=security
        )
        assert lines == ["1234", "5678", "5678 77", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
        dropped = ContainerSecurity(dropped=["ALL"], added=["NET_BIND_SERVICE"])
        _, lines = await n.run(*shell("grep CapEff /proc/self/status"), attempt=1, security=dropped)
        assert lines == ["CapEff:\t0000000000000400"]
        _, lines = await n.run(
            *shell("grep Seccomp: /proc/self/status; unshare -U true 2>&1 | tail -1"),
            attempt=2,
            security=ContainerSecurity(seccomp=replace(ContainerSecurity().seccomp, type="RuntimeDefault")),
        )
        assert lines[0] == "Seccomp:\t2"
        assert "not permitted" in lines[1]

    run_with_node(tmp_path, work)


def test_mounts_and_shared_process_namespace(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        (tmp_path / "data").mkdir()
        shared = n.sandbox(namespaces=NamespaceOptions(pid="pod"))
        await n.runtime.run_sandbox(POD, shared)
        mounts = [
            Mount(source=tmp_path / "data", target="/data"),
            Mount(source=tmp_path / "data", target="/ro", is_read_only=True),
        ]
        script = "echo $$ > /data/pid; touch /ro/x 2>&1; cat /proc/1/comm; cat /etc/hostname"
        _, lines = await n.run(*shell(script), mounts=mounts, namespaces=NamespaceOptions(pid="pod"))
        assert (tmp_path / "data/pid").read_text() != "1\n"
        assert "Read-only" in lines[0]
        assert lines[1:] == ["pause", "boat"]

    run_with_node(tmp_path, work)


@pytest.mark.parametrize("type", ["RuntimeDefault", "Localhost"])
def test_an_apparmor_profile_that_is_not_loaded_is_refused(
    tmp_path: Path, type: Literal["RuntimeDefault", "Localhost"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "loaded_profiles", lambda: ["another"])

    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        profile = SecurityProfile(type=type, local="sampan-test-missing")
        with pytest.raises(RuntimeFailure, match="apparmor profile") as failure:
            await n.start("/bin/true", security=ContainerSecurity(apparmor=profile))
        assert failure.value.reason == "CreateContainerError"

    run_with_node(tmp_path, work)


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_containers_see_no_cgroups_of_the_machine(tmp_path: Path, program: str) -> None:
    async def work(n: Node) -> None:
        sandbox = n.sandbox(handler=program)
        await n.runtime.run_sandbox(POD, sandbox)
        script = "cat /proc/self/cgroup; touch /sys/fs/cgroup/x 2> /dev/null || echo refused"
        _, lines = await n.run(*shell(script))
        assert lines[-1] == "refused"
        assert not [line for line in lines if sandbox.cgroup_parent in line]
        assert "memory:/" in "".join(lines) or "0::/" in lines
        script = "grep -c . /sys/fs/cgroup/memory/cgroup.procs /sys/fs/cgroup/cgroup.procs 2> /dev/null"
        _, [line] = await n.run(*shell(script), attempt=1)
        assert line.split(":")[1] in "12", "the processes of this container alone"

    run_with_node(tmp_path, work)


def test_container_above_its_memory_limit_is_killed(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"
        await n.start(
            *shell(script), resources=ContainerResources(memory_bytes=32 << 20, cpu_shares=100, cpu_quota=200_000)
        )
        ended = await n.wait_for_exit()
        assert (ended.exit_code, ended.reason) in [
            (137, "OOMKilled"),
            (2, "Error"),
        ]  # the shell may fail to allocate memory first

    run_with_node(tmp_path, work)


def test_failed_start_raises_runtime_failure(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        with pytest.raises(RuntimeFailure, match="no/such") as failure:
            await n.start("/no/such/program")
        assert failure.value.reason == "RunContainerError"
        (failed,) = n.runtime.pod_report(POD).containers
        assert (failed.state, failed.exit_code, failed.reason) == ("exited", 128, "StartError")
        with pytest.raises(RuntimeFailure, match="there is no image"):
            await n.start("x", image="none", image_ref="")
        assert n.runtime.pod_report(POD).containers == [failed]

    run_with_node(tmp_path, work)


def test_containers_survive_a_kubelet_restart(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start(*shell("echo one; read x; echo two; exit 4"), has_stdin=True)
        id = n.report().id
        await n.runtime.__aexit__(None, None, None)
        n.runtime = n.make()
        async with n.runtime:
            assert (n.report().id, n.report().state) == (id, contract.RUNNING)
            assert (await n.exec("true"))[0] == 0
            stream = await n.runtime.attach(POD, "c", has_stdin=True)
            await stream.write(b"\n")
            await stream.close()
            assert (await n.wait_for_exit()).exit_code == 4
        await n.runtime.__aexit__(None, None, None)
        n.runtime = n.make()
        await n.runtime.__aenter__()
        assert (n.report().exit_code, n.log()) == (4, ["one", "two"])

    run_with_node(tmp_path, work)


def test_stats_and_new_limits(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start(*shell("dd if=/dev/zero of=/file bs=1M count=3 2>/dev/null; while :; do :; done"))
        await n.exec("sh", "-c", "until test -s /file; do sleep 0.01; done")

        async def has_cpu_rate() -> bool:
            return all(usage.cpu_cores > 0 for usage in await n.runtime.stats(POD))

        await eventually(has_cpu_rate)
        usages = {usage.name: usage for usage in await n.runtime.stats(POD)}
        assert set(usages) == {"", "c"}, "the usage of the pod, with its network, and of the container"
        assert usages["c"].memory_bytes > 0
        assert (usages["c"].disk_bytes or 0) >= 3 << 20
        await n.runtime.update_resources(
            POD, "c", ContainerResources(cpu_shares=512, cpu_quota=50_000, memory_bytes=64 << 20)
        )

    run_with_node(tmp_path, work)


def test_connect_reaches_a_port_inside_the_pod(tmp_path: Path) -> None:
    async def work(n: Node) -> None:
        await n.runtime.run_sandbox(POD, n.sandbox())
        await n.start("/usr/bin/python3", "-c", ECHO)
        reader, writer = await eventually(lambda: n.runtime.connect(POD, 8080), ignore=(RuntimeFailure,))
        writer.write(b"echo\n")
        assert await reader.readline() == b"echo\n"
        writer.close()

    run_with_node(tmp_path, work)
