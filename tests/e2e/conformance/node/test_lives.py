"""The conformance descriptions of sig-node for the lives of containers: hooks, init containers, ends and their
messages; each a test whose first line is its name."""

import asyncio
from typing import Any

from sampan.api.types.core_v1 import Pod
from tests.e2e.conformance.node.pods import container, delete, gone, ready, restarts, run, status
from tests.e2e.conformance.storage.real_node import RealNode, together

SERVER = "python3 -u -m http.server 8080 2>&1 | tee /v/log"
SHARED: dict[str, Any] = {"volumes": [{"name": "v", "emptyDir": {}}]}
MOUNTED: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
ANSWERS: dict[str, Any] = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}


async def server(node: RealNode) -> str:
    """A pod that notes who asks for what; its address."""
    script = f"({SERVER})& while ! grep -q 'GET /echo' /v/log; do sleep 0.1; done; echo asked > /dev/termination-log"
    await run(node, container(script=script, **MOUNTED, **ANSWERS), name="server", restartPolicy="Never", **SHARED)
    return (await ready(node, "server")).status.podIP


async def was_asked(node: RealNode) -> None:
    assert node.said(await node.ended("server")) == "asked"


def asking(address: str) -> dict[str, Any]:
    return {"httpGet": {"host": address, "port": 8080, "path": "/echo?msg=hook"}}


def calling(address: str) -> dict[str, Any]:
    script = f"import urllib.request as u\ntry: u.urlopen('http://{address}:8080/echo')\nexcept u.HTTPError: pass"
    return {"exec": {"command": ["python3", "-c", script]}}


@together
async def test_command_after_the_start(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart exec hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await run(node, container(lifecycle={"postStart": calling(address)}))
    await ready(node)
    await was_asked(node)


@together
async def test_request_after_the_start(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart http hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await run(node, container(lifecycle={"postStart": asking(address)}))
    await ready(node)
    await was_asked(node)


@together
async def test_command_before_the_end(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop exec hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await run(node, container(lifecycle={"preStop": calling(address)}), terminationGracePeriodSeconds=15)
    await ready(node)
    await delete(node)
    await was_asked(node)


@together
async def test_request_before_the_end(node: RealNode) -> None:
    """[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop http hook
    properly [NodeConformance] [Conformance]"""
    address = await server(node)
    await run(node, container(lifecycle={"preStop": asking(address)}), terminationGracePeriodSeconds=15)
    await ready(node)
    await delete(node)
    await was_asked(node)


@together
async def test_hook_when_a_pod_is_killed(node: RealNode) -> None:
    """[sig-node] PreStop should call prestop when killing a pod [Conformance]"""
    address = await server(node)
    script = "trap 'exit 0' TERM; sleep 1000 & wait"
    await run(node, container(script=script, lifecycle={"preStop": calling(address)}), terminationGracePeriodSeconds=20)
    await ready(node)
    await delete(node)
    await was_asked(node)
    await gone(node)


# -- init containers -------------------------------------------------------------------------------------------------


def conditions(pod: Pod) -> dict[str, str]:
    return {each.type: each.status for each in pod.status.conditions}


@together
async def test_init_containers_of_a_pod_that_ends(node: RealNode) -> None:
    """[sig-node] InitContainer [NodeConformance] should invoke init containers on a RestartNever pod [Conformance]"""
    inits = [container("init1", "true"), container("init2", "true")]
    await run(node, container("run1", "true"), initContainers=inits, restartPolicy="Never")
    pod = await node.ended("p")
    assert conditions(pod)["Initialized"] == "True"
    assert [each.state.terminated.exitCode for each in pod.status.initContainerStatuses if each.state.terminated] == [
        0,
        0,
    ]
    assert all(each.ready for each in pod.status.initContainerStatuses)


@together
async def test_init_containers_of_a_pod_that_goes_on(node: RealNode) -> None:
    """[sig-node] InitContainer [NodeConformance] should invoke init containers on a RestartAlways pod [Conformance]"""
    await run(node, container("run1"), initContainers=[container("init1", "true"), container("init2", "true")])
    pod = await ready(node)
    assert pod.status.phase == "Running"
    assert conditions(pod)["Initialized"] == "True"
    assert all(each.ready and each.state.terminated for each in pod.status.initContainerStatuses)


@together
async def test_init_container_that_fails_again_and_again(node: RealNode) -> None:
    """[sig-node] InitContainer [NodeConformance] should not start app containers if init containers fail on a
    RestartAlways pod [Conformance]"""
    await run(node, container("run1"), initContainers=[container("init1", "false"), container("init2", "true")])
    pod = await node.when("p", lambda pod: any(each.restartCount >= 2 for each in pod.status.initContainerStatuses))
    assert pod.status.phase == "Pending"
    assert conditions(pod)["Initialized"] == "False"
    assert pod.status.containerStatuses[0].state.waiting is not None
    assert pod.status.initContainerStatuses[1].state.waiting is not None


@together
async def test_init_container_that_fails(node: RealNode) -> None:
    """[sig-node] InitContainer [NodeConformance] should not start app containers and fail the pod if init containers
    fail on a RestartNever pod [Conformance]"""
    inits = [container("init1", "true"), container("init2", "false")]
    await run(node, container("run1"), initContainers=inits, restartPolicy="Never")
    pod = await node.when("p", lambda pod: pod.status.phase == "Failed")
    assert conditions(pod)["Initialized"] == "False"
    assert pod.status.containerStatuses[0].state.waiting is not None


# -- ends ------------------------------------------------------------------------------------------------------------


@together
async def test_status_of_containers_that_exit(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test when starting a container that exits should run with the expected
    status [NodeConformance] [Conformance]"""
    script = "f=/v/count; n=$(cat $f 2>/dev/null || echo 0); echo $((n+1)) > $f; [ $n -ge 2 ] && sleep 1000; exit 1"
    await run(node, container(script=script, **MOUNTED), name="always", **SHARED)
    once = "[ -e /v/again ] && exit 0; touch /v/again; exit 1"
    await run(node, container(script=once, **MOUNTED), name="on-failure", restartPolicy="OnFailure", **SHARED)
    await run(node, container(script="exit 1"), name="never", restartPolicy="Never")
    never = await node.when("never", lambda pod: pod.status.phase == "Failed")
    assert (restarts(never), status(never).ready) == (0, False)
    failed = await node.when("on-failure", lambda pod: pod.status.phase == "Succeeded")
    assert restarts(failed) == 1
    always = await node.when("always", lambda pod: pod.status.phase == "Running" and restarts(pod) == 2)
    always = await node.when("always", lambda pod: restarts(pod) == 2 and status(pod).ready)
    assert status(always).state.running is not None


async def message(node: RealNode, script: str, *, fails: bool = False, **more: Any) -> str:
    await run(node, container(script=script, **more), restartPolicy="Never")
    pod = await node.when("p", lambda pod: pod.status.phase == ("Failed" if fails else "Succeeded"))
    state = status(pod).state.terminated
    assert state is not None
    return state.message


@together
async def test_message_at_another_path(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message if
    TerminationMessagePath is set as non-root user and at a non-default path [NodeConformance] [Conformance]"""
    told = await message(
        node,
        "printf DONE > /dev/termination-custom-log",
        terminationMessagePath="/dev/termination-custom-log",
        securityContext={"runAsUser": 1000},
    )
    assert told == "DONE"


@together
async def test_message_from_the_log(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message from log
    output if TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    told = await message(node, "printf DONE; exit 1", fails=True, terminationMessagePolicy="FallbackToLogsOnError")
    assert told == "DONE"


@together
async def test_no_message_of_a_success(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message as empty
    when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    assert await message(node, "printf DONE", terminationMessagePolicy="FallbackToLogsOnError") == ""


@together
async def test_message_from_the_file(node: RealNode) -> None:
    """[sig-node] Container Runtime blackbox test on terminated container should report termination message from file
    when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set [NodeConformance] [Conformance]"""
    script = "printf OK > /dev/termination-log; printf DONE"
    assert await message(node, script, terminationMessagePolicy="FallbackToLogsOnError") == "OK"


@together
async def test_reason_of_an_end(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a busybox command that always fails in a pod should have an terminated reason
    [NodeConformance] [Conformance]"""
    await run(node, container(script="false"))
    pod = await node.when(
        "p",
        lambda pod: any(each.state.terminated or each.lastState.terminated for each in pod.status.containerStatuses),
    )
    ended = status(pod).state.terminated or status(pod).lastState.terminated
    assert ended is not None
    assert (ended.exitCode, ended.reason) == (1, "Error")


@together
async def test_deleting_a_pod_that_fails(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a busybox command that always fails in a pod should be possible to delete
    [NodeConformance] [Conformance]"""
    await run(node, container(script="false"))
    await node.when("p", lambda pod: bool(pod.status.containerStatuses))
    await delete(node)
    async with asyncio.timeout(60):
        await gone(node)
<<<<<<< Updated upstream
=======


# -- deadlines and deletion ------------------------------------------------------------------------------------------


@together
async def test_a_deadline_set_later(node: RealNode) -> None:
    """[sig-node] Pods should allow activeDeadlineSeconds to be updated [NodeConformance] [Conformance]"""
    await run(node, container())
    await node.running("p")
    await node.client.of(Pod).patch("p", {"spec": {"activeDeadlineSeconds": 1}}, node.namespace)
    pod = await node.when("p", lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "DeadlineExceeded"


@together
async def test_submitted_and_removed(node: RealNode) -> None:
    """[sig-node] Pods should be submitted and removed [NodeConformance] [Conformance]"""
    script = "trap 'exit 0' TERM; sleep 1000 & wait"
    made = await run(node, container(script=script), meta={"labels": {"time": "now"}})
    assert made.metadata.generation == 1
    await node.running("p")
    await delete(node, grace_s=600)
    async with asyncio.timeout(60):
        await gone(node)


@together
async def test_updated(node: RealNode) -> None:
    """[sig-node] Pods should be updated [NodeConformance] [Conformance]"""
    await run(node, container(), meta={"labels": {"time": "1"}})
    await node.running("p")
    await node.client.of(Pod).patch("p", {"metadata": {"labels": {"time": "2"}}}, node.namespace)
    found = await node.client.of(Pod).get("p", node.namespace)
    assert found.metadata.labels == {"time": "2"}
    assert (await node.running("p")).status.containerStatuses[0].restartCount == 0


@together
async def test_address_of_the_host(node: RealNode) -> None:
    """[sig-node] Pods should get a host IP [NodeConformance] [Conformance]"""
    await run(node, container())
    pod = await node.running("p")
    assert pod.status.hostIP
    assert pod.status.hostIPs[0].ip == pod.status.hostIP


@together
async def test_generation_and_graceful_deletion(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete
    [Conformance]"""
    script = "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"
    made = await run(node, container(script=script), meta={"generation": 100}, terminationGracePeriodSeconds=20)
    assert made.metadata.generation == 1
    await node.when("p", lambda pod: pod.status.observedGeneration == 1 and pod.status.phase == "Running")
    await delete(node)
    pod = await node.client.of(Pod).get("p", node.namespace)
    assert pod.metadata.generation == 2
    await gone(node)


@together
async def test_generation_counts_updates(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per
    update [MinimumKubeletVersion:1.34] [Conformance]"""
    await run(node, container(), tolerations=[])
    await node.when("p", lambda pod: pod.status.observedGeneration == 1)
    pods = node.client.of(Pod)
    await pods.patch("p", {"metadata": {"labels": {"a": "b"}}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 1
    await pods.patch("p", {"spec": {"activeDeadlineSeconds": 1000}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 2
    await node.when("p", lambda pod: pod.status.observedGeneration == 2)


@together
async def test_generation_of_many_updates(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and
    observedGeneration eventually converge [MinimumKubeletVersion:1.34] [Conformance]"""
    await run(node, container())
    pods = node.client.of(Pod)
    for left in range(500):
        await pods.patch("p", {"spec": {"activeDeadlineSeconds": 10000 - left}}, node.namespace)
    pod = await node.when("p", lambda pod: pod.status.observedGeneration == pod.metadata.generation == 501)
    assert pod.spec.activeDeadlineSeconds == 9501


@together
async def test_deleting_a_collection(node: RealNode) -> None:
    """[sig-node] Pods should delete a collection of pods [Conformance]"""
    names = ["test-pod-1", "test-pod-2", "test-pod-3"]
    for name in names:
        await run(node, container(), name=name, meta={"labels": {"type": "Testing"}})
    for name in names:
        await ready(node, name)
    chosen = Selection(namespace=node.namespace, labels="type=Testing")
    await node.client.of(Pod).delete_collection(chosen)
    for name in names:
        await gone(node, name)


@together
async def test_patching_a_status(node: RealNode) -> None:
    """[sig-node] Pods should patch a pod status [Conformance]"""
    await run(node, container())
    await ready(node)
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {"message": "Patched by e2e test"}}
    pods = node.client.of(Pod)
    await pods.patch("p", patch, node.namespace, subresource="status")
    found = await pods.get("p", node.namespace)
    assert found.metadata.annotations["patchedstatus"] == "true"


@together
async def test_lifecycle(node: RealNode) -> None:
    """[sig-node] Pods should run through the lifecycle of Pods and PodStatus [Conformance]"""
    pods, mine = node.client.of(Pod), Selection(namespace=node.namespace, labels="test-pod-static=true")
    await run(node, container(), meta={"labels": {"test-pod-static": "true"}}, terminationGracePeriodSeconds=1)
    before = await ready(node)
    other = f"{IMAGE}:latest"
    changed = [{"name": "c", "image": other}]
    patch = {"metadata": {"labels": {"test-pod": "patched"}}, "spec": {"containers": changed}}
    await pods.patch("p", patch, node.namespace)
    found = await pods.get("p", node.namespace)
    assert found.metadata.labels == {"test-pod-static": "true", "test-pod": "patched"}
    assert [each.image for each in found.spec.containers or ()] == [other]
    assert int(found.metadata.resourceVersion) > int(before.metadata.resourceVersion)
    await node.when("p", lambda pod: is_ready(pod) and restarts(pod) == 1 and status(pod).image == other)

    await unready(node)
    await ready(node)
    async with pods.watch(mine) as events:
        await pods.delete_collection(mine, options=Delete(grace_period_s=1))
        async with asyncio.timeout(60):
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    break
    with pytest.raises(NotFound):
        await pods.get("p", node.namespace)


async def unready(node: RealNode) -> None:
    """Say in the pod's status that it is not ready, which the node will put right."""
    pods = node.client.of(Pod)
    while True:
        said = copy_of(await pods.get("p", node.namespace))
        for condition in said.status.conditions:
            if condition.type in ("Ready", "ContainersReady"):
                assert condition.status == "True"
                condition.status = "False"
        try:
            replaced = await pods.update_status(said)
        except Conflict:
            continue
        states = {each.type: each.status for each in replaced.status.conditions}
        assert (states["Ready"], states["ContainersReady"]) == ("False", "False")
        return
>>>>>>> Stashed changes
