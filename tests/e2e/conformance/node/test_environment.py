"""Conformance tests of sig-node for environment variables, on a real node with the programs of the host. The first
paragraph of a docstring is the official test name."""

import base64
import math
from dataclasses import replace
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, Node, Pod, Secret, Service
from sampan.api.values.quantity import parse
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.errors import Invalid
from tests.e2e.conformance.storage.real_node import NODE, RealNode, concurrent_scenario


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


def variables(**sources: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": source} if isinstance(source, str) else {"name": name, "valueFrom": source}
        for name, source in sources.items()
    ]


async def container_environment(node: RealNode, env: list[dict[str, Any]], **container: Any) -> dict[str, str]:
    """Return the variables with which a container is started, also those that a shell does not pass on."""
    output = await node.output("tr '\\0' '\\n' < /proc/1/environ", container={"env": env, **container})
    return dict(line.partition("=")[::2] for line in output.splitlines())


# -- config maps -----------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_variable_from_config_map_key(node: RealNode) -> None:
    """[sig-node] ConfigMap should be consumable via environment variable [NodeConformance] [Conformance]"""
    await node.config_map("m", data={"data-1": "value-1"})
    environment = await container_environment(
        node, variables(CONFIG_DATA_1={"configMapKeyRef": {"name": "m", "key": "data-1"}})
    )
    assert environment["CONFIG_DATA_1"] == "value-1"


@concurrent_scenario
async def test_env_from_config_map(node: RealNode) -> None:
    """[sig-node] ConfigMap should be consumable via the environment [NodeConformance] [Conformance]"""
    await node.config_map("m", data={"data_1": "value-1", "data_2": "value-2"})
    sources = [{"configMapRef": {"name": "m"}}, {"prefix": "p_", "configMapRef": {"name": "m"}}]
    environment = await container_environment(node, [], envFrom=sources)
    assert {name: value for name, value in environment.items() if "data" in name} == {
        "data_1": "value-1",
        "data_2": "value-2",
        "p_data_1": "value-1",
        "p_data_2": "value-2",
    }


@concurrent_scenario
async def test_env_from_config_map_with_prefixes(node: RealNode) -> None:
    """[sig-node] ConfigMap should be consumable as environment variable names with various prefixes [Conformance]"""
    await node.config_map("m", data={"data_1": "value-1"})
    prefixes = ("p_", "#_", "1-", "$_", "-")
    environment = await container_environment(
        node, [], envFrom=[{"prefix": prefix, "configMapRef": {"name": "m"}} for prefix in prefixes]
    )
    assert {name for name in environment if name.endswith("data_1")} == {f"{prefix}data_1" for prefix in prefixes}


@concurrent_scenario
async def test_config_map_with_empty_key_is_rejected(node: RealNode) -> None:
    """[sig-node] ConfigMap should fail to create ConfigMap with empty key [Conformance]"""
    with pytest.raises(Invalid):
        await node.config_map("m", data={"": "value-1"})


@concurrent_scenario
async def test_config_map_is_updated(node: RealNode) -> None:
    """[sig-node] ConfigMap should update ConfigMap successfully [NodeConformance] [Conformance]"""
    await node.config_map("m", data={})
    await node.change(ConfigMap, "m", data={"data": "value"})
    config_map = await node.client.for_kind(ConfigMap).get("m", node.namespace)
    assert config_map.data == {"data": "value"}


# -- secrets ---------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_variable_from_secret_key(node: RealNode) -> None:
    """[sig-node] Secrets should be consumable from pods in env vars [NodeConformance] [Conformance]"""
    await node.secret("s", stringData={"data-1": "value-1"})
    environment = await container_environment(
        node, variables(SECRET_DATA={"secretKeyRef": {"name": "s", "key": "data-1"}})
    )
    assert environment["SECRET_DATA"] == "value-1"


@concurrent_scenario
async def test_env_from_secret(node: RealNode) -> None:
    """[sig-node] Secrets should be consumable via the environment [NodeConformance] [Conformance]"""
    await node.secret("s", stringData={"data_1": "value-1"})
    sources = [{"secretRef": {"name": "s"}}, {"prefix": "p_", "secretRef": {"name": "s"}}]
    environment = await container_environment(node, [], envFrom=sources)
    assert (environment["data_1"], environment["p_data_1"]) == ("value-1", "value-1")


@concurrent_scenario
async def test_env_from_secret_with_prefixes(node: RealNode) -> None:
    """[sig-node] Secrets should be consumable as environment variable names variable names with various prefixes
    [Conformance]"""
    await node.secret("s", stringData={"data_1": "value-1"})
    prefixes = ("p_", "#_", "1-", "$_", "-")
    environment = await container_environment(
        node, [], envFrom=[{"prefix": prefix, "secretRef": {"name": "s"}} for prefix in prefixes]
    )
    assert {name for name in environment if name.endswith("data_1")} == {f"{prefix}data_1" for prefix in prefixes}


@concurrent_scenario
async def test_secret_with_empty_key_is_rejected(node: RealNode) -> None:
    """[sig-node] Secrets should fail to create secret due to empty secret key [Conformance]"""
    with pytest.raises(Invalid):
        await node.secret("s", stringData={"": "value-1"})


@concurrent_scenario
async def test_secret_is_patched(node: RealNode) -> None:
    """[sig-node] Secrets should patch a secret [Conformance]"""
    secrets, mine = node.client.for_kind(Secret), Selection(labels=f"testsecret={node.namespace}")
    assert (await secrets.list(mine)).items == []
    await node.secret("s", stringData={"key": "value"})
    labels = {"testsecret": node.namespace}
    patch = {"metadata": {"labels": labels}, "data": {"key": base64.b64encode(b"value1").decode()}}
    await secrets.patch("s", patch, node.namespace)
    secret_ = await secrets.get("s", node.namespace)
    assert (secret_.metadata.labels, secret_.data) == (labels, {"key": b"value1"})
    assert [secret.metadata.name for secret in (await secrets.list(mine)).items] == ["s"]
    await secrets.delete_collection(replace(mine, namespace=node.namespace))
    assert (await secrets.list(mine)).items == []


# -- what a pod may know of itself -----------------------------------------------------------------------------------


@concurrent_scenario
async def test_downward_api_pod_name_namespace_and_ip(node: RealNode) -> None:
    """[sig-node] Downward API should provide pod name, namespace and IP address as env vars [NodeConformance]
    [Conformance]"""
    env = variables(N=field("metadata.name"), S=field("metadata.namespace"), IP=field("status.podIP"))
    environment = await container_environment(node, env)
    assert (environment["N"], environment["S"]) == ("p", node.namespace)
    assert environment["IP"].count(".") == 3


@concurrent_scenario
async def test_downward_api_host_ip(node: RealNode) -> None:
    """[sig-node] Downward API should provide host IP as an env var [NodeConformance] [Conformance]"""
    host = (await node.client.for_kind(Node).get(NODE)).status.addresses[0].address
    assert (await container_environment(node, variables(HOST=field("status.hostIP"))))["HOST"] == host


@concurrent_scenario
async def test_downward_api_host_ips(node: RealNode) -> None:
    """[sig-node] Downward API should provide hostIPs as an env var [NodeConformance] [Conformance]"""
    addresses = (await node.client.for_kind(Node).get(NODE)).status.addresses
    hosts = ",".join(address.address for address in addresses if address.type == "InternalIP")
    assert (await container_environment(node, variables(HOSTS=field("status.hostIPs"))))["HOSTS"] == hosts


@concurrent_scenario
async def test_downward_api_pod_uid(node: RealNode) -> None:
    """[sig-node] Downward API should provide pod UID as env vars [NodeConformance] [Conformance]"""
    name = await node.start("echo $UID_OF_POD", container={"env": variables(UID_OF_POD=field("metadata.uid"))})
    pod = await node.wait_until_succeeded(name)
    assert node.output_of(pod) == pod.metadata.uid


@concurrent_scenario
async def test_downward_api_requests_and_limits(node: RealNode) -> None:
    """[sig-node] Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars
    [NodeConformance] [Conformance]"""
    words = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
    env = variables(**{word.replace(".", "_"): {"resourceFieldRef": {"resource": word}} for word in words})
    amounts = {"requests": {"cpu": "250m", "memory": "32Mi"}, "limits": {"cpu": "1250m", "memory": "64Mi"}}
    environment = await container_environment(node, env, resources=amounts)
    assert [environment[word.replace(".", "_")] for word in words] == ["1", str(32 << 20), "2", str(64 << 20)]


@concurrent_scenario
async def test_downward_api_limits_default_to_node_allocatable(node: RealNode) -> None:
    """[sig-node] Downward API should provide default limits.cpu/memory from node allocatable [NodeConformance]
    [Conformance]"""
    words = ("limits.cpu", "limits.memory")
    env = variables(**{word.replace(".", "_"): {"resourceFieldRef": {"resource": word}} for word in words})
    environment = await container_environment(node, env)
    room = (await node.client.for_kind(Node).get(NODE)).status.allocatable
    assert int(environment["limits_cpu"]) == math.ceil(parse(room["cpu"]).milli_value() / 1000)
    assert int(environment["limits_memory"]) == parse(room["memory"]).value()


# -- expansion -------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_variables_composed_of_variables(node: RealNode) -> None:
    """[sig-node] Variable Expansion should allow composing env vars into new env vars [NodeConformance]
    [Conformance]"""
    environment = await container_environment(
        node, variables(FOO="foo-value", BAR="bar-value", FOOBAR="$(FOO);;$(BAR)")
    )
    assert environment["FOOBAR"] == "foo-value;;bar-value"


@concurrent_scenario
async def test_variables_expand_in_command(node: RealNode) -> None:
    """[sig-node] Variable Expansion should allow substituting values in a container's command [NodeConformance]
    [Conformance]"""
    command = ["sh", "-c", 'TEST_VAR=wrong; echo "$(TEST_VAR)" > /dev/termination-log']
    output = await node.output("", container={"env": variables(TEST_VAR="test-value"), "command": command})
    assert output == "test-value"


@concurrent_scenario
async def test_variables_expand_in_args(node: RealNode) -> None:
    """[sig-node] Variable Expansion should allow substituting values in a container's args [NodeConformance]
    [Conformance]"""
    args = ['TEST_VAR=wrong; echo "$(TEST_VAR)" > /dev/termination-log']
    container = {"env": variables(TEST_VAR="test-value"), "command": ["sh", "-c"], "args": args}
    assert await node.output("", container=container) == "test-value"


VOLUME: dict[str, Any] = {"name": "v", "emptyDir": {}}


def sub_path_mounts(expression: str) -> list[dict[str, str]]:
    return [{"name": "v", "mountPath": "/logs", "subPathExpr": expression}, {"name": "v", "mountPath": "/all"}]


@concurrent_scenario
async def test_variables_expand_in_sub_path(node: RealNode) -> None:
    """[sig-node] Variable Expansion should allow substituting values in a volume subpath [Conformance]"""
    script = "touch /logs/file; cd /all; find . -type f"
    env = variables(POD_NAME=field("metadata.name"))
    output = await node.output(script, VOLUME, mounts=sub_path_mounts("$(POD_NAME)"), container={"env": env})
    assert output == "./p/file"


@concurrent_scenario
async def test_expanded_sub_path_is_writable(node: RealNode) -> None:
    """[sig-node] Variable Expansion should succeed in writing subpaths in container [Conformance]"""
    env = variables(POD_NAME=field("metadata.annotations['mysubpath']"))
    output = await node.output(
        "touch /logs/test.log; ls /all/mypath/foo",
        VOLUME,
        mounts=sub_path_mounts("$(POD_NAME)"),
        container={"env": env},
        metadata={"annotations": {"mysubpath": "mypath/foo"}},
    )
    assert output == "test.log"


async def config_error_message(node: RealNode, env: list[dict[str, Any]], **options: Any) -> str:
    name = await node.start("true", VOLUME, mounts=sub_path_mounts("$(POD_NAME)"), container={"env": env}, **options)
    pod = await node.wait_for(name, lambda pod: any(status.state.waiting for status in pod.status.containerStatuses))
    pod = await node.wait_for(name, lambda pod: _reason(pod) == "CreateContainerConfigError")
    waiting = pod.status.containerStatuses[0].state.waiting
    assert waiting is not None
    return waiting.message


def _reason(pod: Any) -> str:
    return next((status.state.waiting.reason for status in pod.status.containerStatuses if status.state.waiting), "")


@concurrent_scenario
async def test_sub_path_expanded_to_parent_directory_is_rejected(node: RealNode) -> None:
    """[sig-node] Variable Expansion should fail substituting values in a volume subpath with backticks
    [Conformance]"""
    assert await config_error_message(node, variables(POD_NAME="..")) != ""


@concurrent_scenario
async def test_sub_path_expanded_to_absolute_path_is_rejected(node: RealNode) -> None:
    """[sig-node] Variable Expansion should fail substituting values in a volume subpath with absolute path
    [Conformance]"""
    assert await config_error_message(node, variables(POD_NAME="/tmp")) != ""


@concurrent_scenario
async def test_failed_sub_path_expansion_can_be_corrected(node: RealNode) -> None:
    """[sig-node] Variable Expansion should verify that a failing subpath expansion can be modified during the
    lifecycle of a container [Slow] [Conformance]"""
    env = variables(POD_NAME=field("metadata.annotations['mysubpath']"))
    await config_error_message(node, env, metadata={"annotations": {"notmysubpath": "mypath"}})
    patch = {"metadata": {"annotations": {"mysubpath": "mypath"}}}
    await node.client.for_kind(Pod).patch("p", patch, node.namespace, type=PatchType.MERGE)
    await node.wait_until_succeeded("p")


# -- services --------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_service_environment_variables(node: RealNode) -> None:
    """[sig-node] Pods should contain environment variables for services [NodeConformance] [Conformance]"""
    value = {
        "metadata": {"name": "fooservice", "namespace": node.namespace},
        "spec": {"ports": [{"port": 8765, "targetPort": 8080}], "selector": {"name": "srv"}},
    }
    service = await node.client.for_kind(Service).create(json.from_value(value, Service))
    environment = await container_environment(node, [])
    address = service.spec.clusterIP
    assert {name: value for name, value in environment.items() if name.startswith("FOOSERVICE_")} == {
        "FOOSERVICE_SERVICE_HOST": address,
        "FOOSERVICE_SERVICE_PORT": "8765",
        "FOOSERVICE_PORT": f"tcp://{address}:8765",
        "FOOSERVICE_PORT_8765_TCP": f"tcp://{address}:8765",
        "FOOSERVICE_PORT_8765_TCP_PORT": "8765",
        "FOOSERVICE_PORT_8765_TCP_PROTO": "tcp",
        "FOOSERVICE_PORT_8765_TCP_ADDR": address,
    }
