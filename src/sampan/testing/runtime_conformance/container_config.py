"""The environment of a container: variables, mounts, user, capabilities and namespaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.runtimes.config import ContainerSecurity, Mount, NamespaceOptions, ResolverConfig
from sampan.runtimes.contract import ContainerUser
from sampan.testing.runtime_conformance.bench import RuntimeBench, expect_failure, open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_NET_BIND_SERVICE = 1 << 10
_SYS_ADMIN = 1 << 21
_RANGE = "net.ipv4.ip_local_port_range"


@CHECKS.add(Feature.PROGRAMS)
async def container_gets_environment_arguments_and_working_directory(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        script = 'echo "$ODD"; echo "$0 $1"; pwd'
        env = [("ODD", "a b=c 'd' \"e\" $f"), ("PATH", "/bin:/usr/bin")]
        output = await bench.run(
            pod, ["/bin/sh", "-c"], args=[script, "zero", "one two"], env=env, working_directory="/tmp"
        )
        assert output == [env[0][1], "zero one two", "/tmp"]


@CHECKS.add(Feature.FILES)
async def image_environment_applies_unless_pod_overrides_it(subject: Subject) -> None:
    """Environment variables of the image apply unless the pod sets them."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("a", "b")
        assert await bench.run(pod, "echo $FROM", "a") == ["image"]
        assert await bench.run(pod, "echo $FROM", "b", env=[("FROM", "pod")]) == ["pod"]


@CHECKS.add(Feature.HOSTNAME)
async def sandbox_sets_hostname(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        assert await bench.run(await bench.sandbox(hostname="dinghy"), "hostname") == ["dinghy"]


@CHECKS.add(Feature.DNS)
async def sandbox_sets_resolv_conf(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        dns = ResolverConfig(servers=["10.1.2.3", "10.1.2.4"], searches=["a.test", "b.test"], options=["ndots:5"])
        output = await bench.run(await bench.sandbox(dns=dns), "cat /etc/resolv.conf")
        expected = ["search a.test b.test", "nameserver 10.1.2.3", "nameserver 10.1.2.4", "options ndots:5"]
        assert sorted(filter(None, output)) == sorted(expected)


@CHECKS.add(Feature.SYSCTLS)
async def sandbox_sets_sysctls(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox(sysctls={_RANGE: "30000 40000"})
        output = await bench.run(pod, f"cat /proc/sys/{_RANGE.replace('.', '/')}")
        assert output[0].split() == ["30000", "40000"]


@CHECKS.add(Feature.MOUNTS)
async def host_paths_are_mounted(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        directory = subject.directory / pod.metadata.uid
        (directory / "rw").mkdir(parents=True)
        (directory / "inner").mkdir()
        (directory / "file").write_text("from the machine\n")
        mounts = [
            Mount(source=directory / "rw", target="/data"),
            Mount(source=directory / "inner", target="/data/inner"),
            Mount(source=directory / "file", target="/etc/config", is_read_only=True),
        ]
        script = "cat /etc/config; echo x > /data/made; echo y > /data/inner/made; "
        script += "(echo z > /etc/config) 2>/dev/null || echo refused"
        output = await bench.run(pod, script, mounts=mounts)
        assert [output[0], output[-1]] == ["from the machine", "refused"]
        assert (directory / "rw/made").read_text() == "x\n"
        assert (directory / "inner/made").read_text() == "y\n"
        assert (directory / "file").read_text() == "from the machine\n"


@CHECKS.add(Feature.MOUNTS, Feature.FILES)
async def image_volumes_are_mounted_read_only(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("user", "volumes", "absent")
        await bench.start(pod, "sleep 300", "user")  # an engine may discard the layers of an image that nothing uses
        volume = Mount(source=Path("/"), target="/image", image=subject.image, is_read_only=True)
        mounts = [volume, replace(volume, target="/part", image_sub_path="etc")]
        script = 'head -n 1 /part/passwd; [ "$(cat /image/etc/passwd)" = "$(cat /part/passwd)" ] && echo same; '
        script += "touch /image/new 2>/dev/null || echo refused; touch /part/new 2>/dev/null || echo refused"
        output = await bench.run(pod, script, "volumes", mounts=mounts)
        assert output[0].startswith("root:")
        assert output[1:] == ["same", "refused", "refused"]
        absent = replace(volume, image_sub_path="no/such")
        assert (await expect_failure(bench.start(pod, "true", "absent", mounts=[absent]))).reason


@CHECKS.add(Feature.USERS)
async def container_runs_as_configured_user_and_groups(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("numbers", "image")
        security = ContainerSecurity(user=1234, group=77, supplemental_groups=[88, 99])
        script = "id -u; id -g; id -G; touch /etc/x 2>/dev/null || echo refused"
        user, group, groups, write_result = await bench.run(pod, script, "numbers", security=security)
        assert (user, group, write_result) == ("1234", "77", "refused")
        assert {"77", "88", "99"} <= set(groups.split())
        if (reported := _user(bench, pod, "numbers")) is not None:
            assert (reported.uid, reported.gid, sorted(reported.groups)) == (1234, 77, sorted(map(int, groups.split())))
        assert await bench.run(pod, "id -u", "image") == ["0"]


def _user(bench: RuntimeBench, pod: Pod, name: str) -> ContainerUser | None:
    """Return the user that the runtime reports, or None if it reports none."""
    report = bench.runtime.pod_report(pod).container(name)
    assert report is not None
    return report.user


@CHECKS.add(Feature.CAPABILITIES)
async def capabilities_are_added_and_dropped(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("plain", "few")
        assert not await _effective_capabilities(bench, pod, "plain", ContainerSecurity()) & _SYS_ADMIN
        few = ContainerSecurity(dropped=["ALL"], added=["NET_BIND_SERVICE"], may_not_gain_privileges=True)
        assert await _effective_capabilities(bench, pod, "few", few) == _NET_BIND_SERVICE
        assert bench.log(pod, "few")[1].split() == ["NoNewPrivs:", "1"]


@CHECKS.add(Feature.PRIVILEGED)
async def privileged_container_has_all_capabilities(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        every = ContainerSecurity(is_privileged=True)
        assert await _effective_capabilities(bench, await bench.sandbox(security=every), "c", every) & _SYS_ADMIN


async def _effective_capabilities(bench: RuntimeBench, pod: Pod, name: str, security: ContainerSecurity) -> int:
    output = await bench.run(pod, "grep -E 'CapEff|NoNewPrivs' /proc/self/status", name, security=security)
    return int(output[0].split()[1], 16)


@CHECKS.add(Feature.FILES)
async def root_filesystems_are_isolated(subject: Subject) -> None:
    """A container's root filesystem is invisible to others, and may be read-only."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("writes", "looks", "reads")
        await bench.run(pod, "echo mine > /made; cat /made", "writes")
        assert await bench.run(pod, "cat /made 2>/dev/null || echo none", "looks") == ["none"]
        fixed = ContainerSecurity(is_root_read_only=True)
        assert (await bench.run(pod, "(echo x > /made) 2>/dev/null || echo refused", "reads", security=fixed))[-1:] == [
            "refused"
        ]


@CHECKS.add(Feature.SHARED_PROCESSES)
async def process_namespace_is_shared_on_request(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        for mode, expected in (("pod", "1"), ("container", "0")):
            spaces = NamespaceOptions(pid=mode)  # type: ignore[arg-type]
            pod = await bench.sandbox("sleeps", "looks", namespaces=spaces)
            await bench.start(pod, ["/bin/sleep", "1000007"], "sleeps", namespaces=spaces)
            output = await bench.run(pod, "ps | grep -c 'sleep 100000[7]' || true", "looks", namespaces=spaces)
            assert output == [expected], f"with the mode {mode}"


@CHECKS.add(Feature.NETWORK)
async def loopback_interface_belongs_to_the_pod(subject: Subject) -> None:
    """Containers of a pod share the loopback interface, which other pods cannot reach."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("serves", "asks")
        await bench.start(pod, "echo ready; exec busybox nc -ll -p 8099 -e busybox cat", "serves")
        await wait_until(lambda: bool(bench.log(pod, "serves")), "the server does not start")
        script = "for i in 1 2 3 4 5; do echo hello | busybox nc -w 2 127.0.0.1 8099 && exit 0; sleep 0.2; done; exit 1"
        assert (await bench.run(pod, script, "asks"))[-1:] == ["hello"]
        other = await bench.sandbox()
        assert await bench.run(other, "busybox nc -w 1 127.0.0.1 8099 </dev/null 2>/dev/null || echo refused") == [
            "refused"
        ]
