"""Conformance tests of sig-node for in-place resizing of pods. The first paragraph of a docstring is the official test
name."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, ResourceRequirements
from sampan.api.values.quantity import parse
from sampan.machinery.copies import copy_of
from tests.e2e.conformance.node.pods import container, count_restarts, create_pod, wait_until_ready
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

Amounts = dict[str, Any]
GROUPS = Path("/sys/fs/cgroup")
IS_UNIFIED = (GROUPS / "cgroup.controllers").exists()


def guaranteed_resources(cpu: str, memory: str) -> Amounts:
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


def burstable_resources(**amounts: str) -> Amounts:
    """Return resources from `cpu_request`, `cpu_limit`, `memory_request` and `memory_limit`."""
    resources: Amounts = {}
    for name, text in amounts.items():
        resource, _, kind = name.partition("_")
        resources.setdefault(f"{kind}s", {})[resource] = text
    return resources


async def resize(node: RealNode, **resources: Amounts) -> Pod:
    """Resize the containers of the pod, and return the pod when it is resized."""
    patch = {"spec": {"containers": [{"name": name, "resources": amounts} for name, amounts in resources.items()]}}
    await node.client.for_kind(Pod).patch("p", patch, node.namespace, subresource="resize")
    return await wait_until_resized(node, **resources)


async def wait_until_resized(node: RealNode, **resources: Amounts) -> Pod:
    pod = await node.wait_for("p", lambda pod: is_resized(pod, resources))
    assert count_restarts(pod) == 0
    limits = {name: _parse_amounts(amounts.get("limits", {})) for name, amounts in resources.items()}
    assert await asyncio.to_thread(cgroup_limits, pod, limits) == {
        name: (max(amount["cpu"] * 100, 1000) if "cpu" in amount else -1, amount.get("memory", -1000) // 1000)
        for name, amount in limits.items()
    }
    return pod


def cgroup_limits(pod: Pod, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the limits of each container in its cgroup: microseconds of each 100 ms, and bytes; -1 for no limit."""
    ids = {status.name: status.containerID.partition("//")[2] for status in pod.status.containerStatuses}
    return {name: (_quota(ids[name]), _memory(ids[name])) for name in names}


def _quota(id: str) -> int:
    return _number(id, "cpu.max") if IS_UNIFIED else _number(id, "cpu.cfs_quota_us", "cpu")


def _memory(id: str) -> int:
    limit = _number(id, "memory.max") if IS_UNIFIED else _number(id, "memory.limit_in_bytes", "memory")
    return -1 if limit > 1 << 60 else limit


def _number(id: str, file: str, controller: str = "") -> int:
    """Return the first number in a file of the container's cgroup."""
    directories = (
        Path(at) for at, _, _ in os.walk(GROUPS / controller)
    )  # cgroups of other tests may disappear meanwhile
    (directory,) = (directory for directory in directories if directory.name == id)
    text = (directory / file).read_text().split()[0]
    return -1 if text == "max" else int(text)


def is_resized(pod: Pod, expected: dict[str, Amounts]) -> bool:
    resources = {status.name: status.resources for status in pod.status.containerStatuses}
    is_quiet = all(not status.type.startswith("PodResize") for status in pod.status.conditions)
    return is_quiet and all(_has_amounts(resources[name], amounts) for name, amounts in expected.items())


def _has_amounts(actual: ResourceRequirements | None, expected: Amounts) -> bool:
    requirements = json.from_value(expected, ResourceRequirements)
    return (
        actual is not None
        and _parse_amounts(actual.limits) == _parse_amounts(requirements.limits)
        and _parse_amounts(actual.requests) == _parse_amounts(requirements.requests)
    )


def _parse_amounts(amounts: dict[str, str]) -> dict[str, Any]:
    return {name: parse(text).milli_value() for name, text in amounts.items()}


async def start(node: RealNode, **amounts: Amounts) -> None:
    await create_pod(node, *(container(name, resources=resources) for name, resources in amounts.items()))
    await wait_until_ready(node)


# The requests are small, since all scenarios run concurrently on a machine with two cores.


async def resize_three_containers(node: RealNode, *after: Amounts) -> None:
    await start(
        node,
        c1=guaranteed_resources("50m", "50Mi"),
        c2=guaranteed_resources("100m", "60Mi"),
        c3=guaranteed_resources("150m", "70Mi"),
    )
    await resize(node, c1=after[0], c2=after[1], c3=after[2])


@concurrent_scenario
async def test_net_increase(node: RealNode) -> None:
    """Two containers grow and one shrinks: the pod grows."""
    await resize_three_containers(
        node,
        guaranteed_resources("70m", "60Mi"),
        guaranteed_resources("125m", "70Mi"),
        guaranteed_resources("120m", "65Mi"),
    )


@concurrent_scenario
async def test_net_decrease(node: RealNode) -> None:
    """One container grows and two shrink: the pod shrinks."""
    await resize_three_containers(
        node,
        guaranteed_resources("55m", "60Mi"),
        guaranteed_resources("75m", "50Mi"),
        guaranteed_resources("125m", "60Mi"),
    )


@concurrent_scenario
async def test_mixed_increase_and_decrease(node: RealNode) -> None:
    """Containers grow in one resource while they shrink in another."""
    await resize_three_containers(
        node,
        guaranteed_resources("60m", "50Mi"),
        guaranteed_resources("75m", "70Mi"),
        guaranteed_resources("170m", "80Mi"),
    )


@concurrent_scenario
async def test_resize_six_burstable_containers(node: RealNode) -> None:
    """[sig-node] Pod InPlace Resize Container burstable pods - extended 6 containers - various operations performed
    (including adding limits and requests) [MinimumKubeletVersion:1.34] [Conformance]"""
    await start(
        node,
        c1=burstable_resources(cpu_request="20m", cpu_limit="100m"),
        c2=burstable_resources(memory_request="20Mi", memory_limit="50Mi"),
        c3=burstable_resources(cpu_request="20m", memory_request="20Mi"),
        c4={},
        c5=burstable_resources(cpu_request="20m"),
        c6=burstable_resources(memory_request="20Mi"),
    )
    await resize(
        node,
        c1=burstable_resources(cpu_request="30m", cpu_limit="150m"),
        c2=burstable_resources(memory_request="30Mi", memory_limit="70Mi"),
        c3=burstable_resources(cpu_request="30m", memory_request="20Mi", cpu_limit="100m"),
        c4=burstable_resources(cpu_request="20m"),
        c5=burstable_resources(cpu_request="20m", cpu_limit="40m"),
        c6=burstable_resources(memory_request="20Mi", memory_limit="60Mi"),
    )


@concurrent_scenario
async def test_resize_with_equivalent_quantities(node: RealNode) -> None:
    """[sig-node] Pod InPlace Resize Container burstable pods - extended resize with equivalents
    [MinimumKubeletVersion:1.34] [Conformance]"""
    await start(
        node,
        c1=burstable_resources(cpu_request="1m", cpu_limit="5m", memory_request="10Mi"),
        c2=burstable_resources(cpu_request="2m", memory_request="10Mi"),
    )
    await resize(
        node,
        c1=burstable_resources(cpu_request="2m", cpu_limit="8m", memory_request="10Mi"),
        c2=burstable_resources(cpu_request="1m", memory_request="10Mi"),
    )


@concurrent_scenario
async def test_resize_by_update(node: RealNode) -> None:
    """[sig-node] Pod InPlace Resize Container resize pod via the replace endpoint [MinimumKubeletVersion:1.34]
    [Conformance]"""
    await start(node, c1=guaranteed_resources("100m", "100Mi"))
    changed = copy_of(await node.client.for_kind(Pod).get("p", node.namespace))
    assert changed.spec.containers
    changed.spec.containers[0].resources = json.from_value(guaranteed_resources("150m", "150Mi"), ResourceRequirements)
    await node.client.for_kind(Pod).update(changed, subresource="resize")
    pod = await wait_until_resized(node, c1=guaranteed_resources("150m", "150Mi"))
    resized_pod = await node.client.for_kind(Pod).get_subresource("resize", "p", node.namespace)
    assert (resized_pod.metadata.uid, resized_pod.spec, resized_pod.status.containerStatuses) == (
        pod.metadata.uid,
        pod.spec,
        pod.status.containerStatuses,
    )


@concurrent_scenario
async def test_resize_policy_restart_container(node: RealNode) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await create_pod(node, container(resources=guaranteed_resources("100m", "100Mi"), resizePolicy=policy))
    await wait_until_ready(node)
    amounts = {"c": guaranteed_resources("100m", "150Mi")}
    patch = {"spec": {"containers": [{"name": "c", "resources": amounts["c"]}]}}
    await node.client.for_kind(Pod).patch("p", patch, node.namespace, subresource="resize")
    await node.wait_for("p", lambda pod: count_restarts(pod) == 1 and is_resized(pod, amounts))


def test_quantities_are_compared_by_value() -> None:
    assert _has_amounts(json.from_value({"limits": {"cpu": "1"}}, ResourceRequirements), {"limits": {"cpu": "1000m"}})
    with pytest.raises(AssertionError):
        assert _has_amounts(None, {})
