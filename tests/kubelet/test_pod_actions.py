"""The actions that the kubelet computes for a pod."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    Pod,
    PodSpec,
)
from sampan.kubelet.pod_actions import compute_pod_actions, ephemeral_to_start, stop_order
from sampan.runtimes.contract import EXITED, RUNNING, ContainerReport, PodReport


def container_report(name: str, state: str = RUNNING, code: int = 0, *, is_started: bool = True) -> ContainerReport:
    return ContainerReport(name, f"x://{name}", state, 0, "i", "i", exit_code=code, is_started=is_started)


def pod(policy: str = "Always", *, inits: str = "", sidecars: str = "") -> Pod:
    containers = [Container(name="main"), Container(name="other")]
    first = [Container(name=name) for name in inits.split()]
    first += [Container(name=name, restartPolicy="Always") for name in sidecars.split()]
    return Pod(spec=PodSpec(restartPolicy=policy, initContainers=first, containers=containers))


def actions(manifest: Pod, *reports: ContainerReport, **known: Any) -> tuple[bool, list[str], bool]:
    known = {"is_sandbox_ready": True, "sandboxes": 1} | known
    actions_ = compute_pod_actions(manifest, PodReport(containers=reports, **known))
    return actions_.needs_sandbox, [container.name for container in actions_.start], actions_.kill_pod


NEW: dict[str, Any] = {"is_sandbox_ready": False, "sandboxes": 0}
LOST: dict[str, Any] = {"is_sandbox_ready": False, "sandboxes": 1}


@pytest.mark.parametrize(
    ("manifest", "reports", "known", "expected"),
    [
        (pod(), [], NEW, (True, ["main", "other"], False)),
        (pod(inits="a b"), [], NEW, (True, ["a"], False)),
        (pod(), [container_report("main"), container_report("other")], {}, (False, [], False)),
        (pod(), [container_report("main"), container_report("other", EXITED)], {}, (False, ["other"], False)),
        (pod("OnFailure"), [container_report("main"), container_report("other", EXITED)], {}, (False, [], False)),
        (
            pod("OnFailure"),
            [container_report("main", EXITED, 1), container_report("other")],
            {},
            (False, ["main"], False),
        ),
        (pod("Never"), [container_report("main", EXITED, 1), container_report("other", EXITED)], {}, (False, [], True)),
        (pod(inits="a b"), [container_report("a")], {}, (False, [], False)),
        (pod(inits="a b"), [container_report("a", EXITED)], {}, (False, ["b"], False)),
        (pod(inits="a b"), [container_report("a", EXITED, 1)], {}, (False, ["a"], False)),
        (pod("Never", inits="a b"), [container_report("a", EXITED, 1)], {}, (False, [], True)),
        (pod(inits="a"), [container_report("a", EXITED)], {}, (False, ["main", "other"], False)),
        (pod(sidecars="s"), [container_report("s", is_started=False)], {}, (False, [], False)),
        (pod(sidecars="s"), [container_report("s")], {}, (False, ["main", "other"], False)),
        (
            pod(sidecars="s"),
            [container_report("s", EXITED), container_report("main"), container_report("other")],
            {},
            (False, ["s"], False),
        ),
        (
            pod("Never", sidecars="s"),
            [container_report("s"), container_report("main", EXITED), container_report("other", EXITED)],
            {},
            (False, [], True),
        ),
        (
            pod(),
            [container_report("main", EXITED, 255), container_report("other", EXITED, 255)],
            LOST,
            (True, ["main", "other"], False),
        ),
        (pod("Never"), [container_report("main", EXITED, 255)], LOST, (False, [], True)),
        (
            pod("OnFailure"),
            [container_report("main", EXITED), container_report("other", EXITED)],
            LOST,
            (False, [], True),
        ),
    ],
)
def test_compute_pod_actions(
    manifest: Pod, reports: list[ContainerReport], known: dict[str, Any], expected: tuple[bool, list[str], bool]
) -> None:
    assert actions(manifest, *reports, **known) == expected


def test_restart_policy_rules_of_a_container_override_the_pod_policy() -> None:
    manifest = pod("Never")
    assert manifest.spec.containers is not None
    codes = ContainerRestartRuleOnExitCodes(operator="In", values=[42])
    manifest.spec.containers[0].restartPolicy = "Never"
    manifest.spec.containers[0].restartPolicyRules = [ContainerRestartRule(action="Restart", exitCodes=codes)]
    other = container_report("other")
    assert actions(manifest, container_report("main", EXITED, 42), other) == (False, ["main"], False)
    assert actions(manifest, container_report("main", EXITED, 1), other) == (False, [], False)


def test_ephemeral_containers_start_once() -> None:
    manifest = pod()
    manifest.spec.ephemeralContainers = [EphemeralContainer(name="d"), EphemeralContainer(name="e")]
    remaining = ephemeral_to_start(manifest, PodReport(containers=[container_report("d", EXITED, 1)]))
    assert [container.name for container in remaining] == ["e"]


def test_sidecars_stop_last_in_reverse_order() -> None:
    manifest = pod(sidecars="s t")
    reports = [
        container_report("s"),
        container_report("t"),
        container_report("main"),
        container_report("other", EXITED),
    ]
    assert stop_order(manifest, PodReport(containers=reports)) == ["main"]
    assert stop_order(manifest, PodReport(containers=[*reports[:2], container_report("main", EXITED)])) == ["t"]
    assert stop_order(manifest, PodReport(containers=[container_report("s"), container_report("t", EXITED)])) == ["s"]
    assert stop_order(manifest, PodReport(containers=[container_report("s", EXITED)])) == []
