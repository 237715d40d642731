"""Conformance tests of sig-node for the container lifecycle: hooks, init containers, exits and termination messages.
The first paragraph of a docstring is the official test name."""

import asyncio
from typing import Any

from sampan.api.types.core_v1 import Pod
from tests.e2e.conformance.node.pods import (
    container,
    container_status,
    count_restarts,
    create_pod,
    delete,
    wait_until_gone,
    wait_until_ready,
)
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

SERVER = "python3 -u -m http.server 8080 2>&1 | tee /v/log"
SHARED: dict[str, Any] = {"volumes": [{"name": "v", "emptyDir": {}}]}
MOUNTED: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
LISTENS: dict[str, Any] = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}


async def server(node: RealNode) -> str:
    """Run a server that succeeds when it is called at /echo, and return its address."""
    script = f"({SERVER})& while ! grep -q 'GET /echo' /v/log; do sleep 0.1; done; echo asked > /dev/termination-log"
    await create_pod(
        node, container(script=script, **MOUNTED, **LISTENS), name="server", restartPolicy="Never", **SHARED
    )
    return (await wait_until_ready(node, "server")).status.podIP


async def check_server_was_called(node: RealNode) -> None:
    assert node.output_of(await node.wait_until_succeeded("server")) == "asked"


def http_hook(address: str) -> dict[str, Any]:
    return {"httpGet": {"host": address, "port": 8080, "path": "/echo?msg=hook"}}


def exec_hook(address: str) -> dict[str, Any]:
    script = f"import urllib.request as u\ntry: u.urlopen('http://{address}:8080/echo')\nexcept u.HTTPError: pass"
    return {"exec": {"command": ["python3", "-c", script]}}


@concurrent_scenario
async def test_post_start_exec_hook(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart exec hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await create_pod(node, container(lifecycle={"postStart": exec_hook(address)}))
    await wait_until_ready(node)
    await check_server_was_called(node)


@concurrent_scenario
async def test_post_start_http_hook(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart http hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await create_pod(node, container(lifecycle={"postStart": http_hook(address)}))
    await wait_until_ready(node)
    await check_server_was_called(node)


@concurrent_scenario
async def test_pre_stop_exec_hook(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop exec hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await create_pod(node, container(lifecycle={"preStop": exec_hook(address)}), terminationGracePeriodSeconds=60)
    await wait_until_ready(node)
    await delete(node)
    await check_server_was_called(node)


@concurrent_scenario
async def test_pre_stop_http_hook(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop http hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await create_pod(node, container(lifecycle={"preStop": http_hook(address)}), terminationGracePeriodSeconds=60)
    await wait_until_ready(node)
    await delete(node)
    await check_server_was_called(node)


@concurrent_scenario
async def test_pre_stop_hook_runs_before_a_pod_is_killed(node: RealNode) -> None:
    """[sig-node] PreStop should call prestop when killing a pod [Conformance]"""
    address = await server(node)
    script = "trap 'exit 0' TERM; sleep 1000 & wait"
    await create_pod(
        node, container(script=script, lifecycle={"preStop": exec_hook(address)}), terminationGracePeriodSeconds=60
    )
    await wait_until_ready(node)
    await delete(node)
    await check_server_was_called(node)
    await wait_until_gone(node)


# -- init containers -------------------------------------------------------------------------------------------------


def conditions(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


@concurrent_scenario
async def test_init_containers_of_a_restart_never_pod(node: RealNode) -> None:
    """[sig-node] InitContainer should invoke init containers on a RestartNever pod [Conformance]"""
    inits = [container("init1", "true"), container("init2", "true")]
    await create_pod(node, container("run1", "true"), initContainers=inits, restartPolicy="Never")
    pod = await node.wait_until_succeeded("p")
    assert conditions(pod)["Initialized"] == "True"
    assert [
        status.state.terminated.exitCode for status in pod.status.initContainerStatuses if status.state.terminated
    ] == [
        0,
        0,
    ]
    assert all(status.ready for status in pod.status.initContainerStatuses)


@concurrent_scenario
async def test_init_containers_of_a_restart_always_pod(node: RealNode) -> None:
    """[sig-node] InitContainer should invoke init containers on a RestartAlways pod [Conformance]"""
    await create_pod(node, container("run1"), initContainers=[container("init1", "true"), container("init2", "true")])
    pod = await wait_until_ready(node)
    assert pod.status.phase == "Running"
    assert conditions(pod)["Initialized"] == "True"
    assert all(status.ready and status.state.terminated for status in pod.status.initContainerStatuses)


@concurrent_scenario
async def test_failed_init_container_of_a_restart_always_pod(node: RealNode) -> None:
    """[sig-node] InitContainer should not start app containers if init containers fail on a RestartAlways pod
    [Conformance]"""
    await create_pod(node, container("run1"), initContainers=[container("init1", "false"), container("init2", "true")])
    pod = await node.wait_for(
        "p", lambda pod: any(status.restartCount >= 2 for status in pod.status.initContainerStatuses)
    )
    assert pod.status.phase == "Pending"
    assert conditions(pod)["Initialized"] == "False"
    assert pod.status.containerStatuses[0].state.waiting is not None
    assert pod.status.initContainerStatuses[1].state.waiting is not None


@concurrent_scenario
async def test_failed_init_container_of_a_restart_never_pod(node: RealNode) -> None:
    """[sig-node] InitContainer should not start app containers and fail the pod if init containers fail on a
    RestartNever pod [Conformance]"""
    inits = [container("init1", "true"), container("init2", "false")]
    await create_pod(node, container("run1"), initContainers=inits, restartPolicy="Never")
    pod = await node.wait_for("p", lambda pod: pod.status.phase == "Failed")
    assert conditions(pod)["Initialized"] == "False"
    assert pod.status.containerStatuses[0].state.waiting is not None


# -- ends ------------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_status_of_exited_containers_by_restart_policy(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test when starting a container that exits should run with the expected
    status [NodeConformance] [Conformance]"""
    script = "f=/v/count; n=$(cat $f 2>/dev/null || echo 0); echo $((n+1)) > $f; [ $n -ge 2 ] && sleep 1000; exit 1"
    await create_pod(node, container(script=script, **MOUNTED), name="always", **SHARED)
    once = "[ -e /v/again ] && exit 0; touch /v/again; exit 1"
    await create_pod(node, container(script=once, **MOUNTED), name="on-failure", restartPolicy="OnFailure", **SHARED)
    await create_pod(node, container(script="exit 1"), name="never", restartPolicy="Never")
    never = await node.wait_for("never", lambda pod: pod.status.phase == "Failed")
    assert (count_restarts(never), container_status(never).ready) == (0, False)
    failed = await node.wait_for("on-failure", lambda pod: pod.status.phase == "Succeeded")
    assert count_restarts(failed) == 1
    always = await node.wait_for("always", lambda pod: pod.status.phase == "Running" and count_restarts(pod) == 2)
    always = await node.wait_for("always", lambda pod: count_restarts(pod) == 2 and container_status(pod).ready)
    assert container_status(always).state.running is not None


async def termination_message(node: RealNode, script: str, *, fails: bool = False, **more: Any) -> str:
    await create_pod(node, container(script=script, **more), restartPolicy="Never")
    pod = await node.wait_for("p", lambda pod: pod.status.phase == ("Failed" if fails else "Succeeded"))
    state = container_status(pod).state.terminated
    assert state is not None
    return state.message


@concurrent_scenario
async def test_termination_message_at_a_custom_path(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message if
    TerminationMessagePath is set as non-root user and at a non-default path [NodeConformance] [Conformance]"""
    output = await termination_message(
        node,
        "printf DONE > /dev/termination-custom-log",
        terminationMessagePath="/dev/termination-custom-log",
        securityContext={"runAsUser": 1000},
    )
    assert output == "DONE"


@concurrent_scenario
async def test_termination_message_from_the_log(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message from log
    output if TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    output = await termination_message(
        node, "printf DONE; exit 1", fails=True, terminationMessagePolicy="FallbackToLogsOnError"
    )
    assert output == "DONE"


@concurrent_scenario
async def test_termination_message_is_empty_on_success(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message as empty
    when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    assert await termination_message(node, "printf DONE", terminationMessagePolicy="FallbackToLogsOnError") == ""


@concurrent_scenario
async def test_termination_message_from_the_file(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message from file
    when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    script = "printf OK > /dev/termination-log; printf DONE"
    assert await termination_message(node, script, terminationMessagePolicy="FallbackToLogsOnError") == "OK"


@concurrent_scenario
async def test_terminated_state_has_a_reason(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a busybox command that always fails in a pod should have an terminated reason
    [NodeConformance] [Conformance]"""
    await create_pod(node, container(script="false"))
    pod = await node.wait_for(
        "p",
        lambda pod: any(
            status.state.terminated or status.lastState.terminated for status in pod.status.containerStatuses
        ),
    )
    ended = container_status(pod).state.terminated or container_status(pod).lastState.terminated
    assert ended is not None
    assert (ended.exitCode, ended.reason) == (1, "Error")


@concurrent_scenario
async def test_failing_pod_can_be_deleted(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a busybox command that always fails in a pod should be possible to delete
    [NodeConformance] [Conformance]"""
    await create_pod(node, container(script="false"))
    await node.wait_for("p", lambda pod: bool(pod.status.containerStatuses))
    await delete(node)
    async with asyncio.timeout(60):
        await wait_until_gone(node)
