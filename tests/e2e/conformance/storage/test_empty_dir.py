"""Conformance tests of sig-storage for emptyDir. The first paragraph of a docstring is the official test name."""

from typing import Any

from tests.e2e.conformance.storage.real_node import IMAGE, RealNode, concurrent_scenario

DISK: dict[str, Any] = {"name": "v", "emptyDir": {}}
MEMORY: dict[str, Any] = {"name": "v", "emptyDir": {"medium": "Memory"}}
_LOOK = "cat /v/file; stat -c %A /v/file"


async def check_mode(node: RealNode, volume: dict[str, Any], mode: str, shown: str, *, user: int = 0) -> None:
    """Check that a file in the volume keeps its mode and its owner."""
    script = f"stat -f -c %T /v; echo content > /v/file; chmod {mode} /v/file; {_LOOK}; stat -c %u /v/file"
    output = await node.output(script, volume, securityContext={"runAsUser": user})
    kind, *rest = output.splitlines()
    assert rest == ["content", shown, str(user)]
    assert (kind == "tmpfs") is (volume is MEMORY)


@concurrent_scenario
async def test_root_0644_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0644,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0644", "-rw-r--r--")


@concurrent_scenario
async def test_root_0666_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0666,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0666", "-rw-rw-rw-")


@concurrent_scenario
async def test_root_0777_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0777,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0777", "-rwxrwxrwx")


@concurrent_scenario
async def test_non_root_0644_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0644,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0644", "-rw-r--r--", user=1001)


@concurrent_scenario
async def test_non_root_0666_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0666,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0666", "-rw-rw-rw-", user=1001)


@concurrent_scenario
async def test_non_root_0777_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0777,tmpfs) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, MEMORY, "0777", "-rwxrwxrwx", user=1001)


@concurrent_scenario
async def test_root_0644_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0644,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0644", "-rw-r--r--")


@concurrent_scenario
async def test_root_0666_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0666,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0666", "-rw-rw-rw-")


@concurrent_scenario
async def test_root_0777_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (root,0777,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0777", "-rwxrwxrwx")


@concurrent_scenario
async def test_non_root_0644_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0644,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0644", "-rw-r--r--", user=1001)


@concurrent_scenario
async def test_non_root_0666_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0666,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0666", "-rw-rw-rw-", user=1001)


@concurrent_scenario
async def test_non_root_0777_default(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes should support (non-root,0777,default) [LinuxOnly] [NodeConformance]"""
    await check_mode(node, DISK, "0777", "-rwxrwxrwx", user=1001)


@concurrent_scenario
async def test_mode_of_the_default_medium(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes volume on default medium should have the correct mode [LinuxOnly]
    [NodeConformance]"""
    assert await node.output("stat -c %A /v", DISK) == "drwxrwxrwx"


@concurrent_scenario
async def test_mode_of_tmpfs(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes volume on tmpfs should have the correct mode [LinuxOnly] [NodeConformance]"""
    output = await node.output("stat -c %a /v; stat -f -c %T /v", MEMORY)
    assert (int(output.split()[0], 8) & 0o777, output.split()[1]) == (0o777, "tmpfs")


@concurrent_scenario
async def test_shared_between_containers(node: RealNode) -> None:
    """[sig-storage] EmptyDir volumes pod should support shared volumes between containers [Conformance]"""
    other = {
        "name": "other",
        "image": IMAGE,
        "command": ["sh", "-c", "echo 'Hello from the busy-box sub-container' > /v/shareddata.txt"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    main = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", "until cat /v/shareddata.txt > /dev/termination-log; do sleep 0.1; done"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    output = await node.output("", DISK, containers=[main, other])
    assert output == "Hello from the busy-box sub-container"


@concurrent_scenario
async def test_secret_and_config_map_volumes_do_not_conflict(node: RealNode) -> None:
    """[sig-storage] EmptyDir wrapper volumes should not conflict [Conformance]"""
    await node.secret("s", stringData={"data-1": "value-1"})
    await node.config_map("m", data={"data-1": "value-2"})
    volumes = [{"name": "secret", "secret": {"secretName": "s"}}, {"name": "map", "configMap": {"name": "m"}}]
    assert await node.output("cat /secret/data-1; echo; cat /map/data-1", *volumes) == "value-1\nvalue-2"


@concurrent_scenario
async def test_many_config_map_volumes(node: RealNode) -> None:
    """[sig-storage] EmptyDir wrapper volumes should not cause race condition when used for configmaps [Serial]"""
    volumes = [{"name": f"m-{number}", "configMap": {"name": f"m-{number}"}} for number in range(50)]
    for number in range(50):
        await node.config_map(f"m-{number}", data={"data-1": f"value-{number}"})
    names = [await node.start("cat /m-*/data-1 | wc -c", *volumes, name=f"p-{number}") for number in range(5)]
    for name in names:
        assert node.output_of(await node.wait_until_succeeded(name)) == str(
            sum(len(f"value-{number}") for number in range(50))
        )
