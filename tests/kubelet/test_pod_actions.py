"""What is to be done for a pod: a table."""

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


def found(name: str, state: str = RUNNING, code: int = 0, *, is_started: bool = True) -> ContainerReport:
    return ContainerReport(name, f"x://{name}", state, 0, "i", "i", exit_code=code, is_started=is_started)


def pod(policy: str = "Always", *, inits: str = "", sidecars: str = "") -> Pod:
    containers = [Container(name="main"), Container(name="other")]
    first = [Container(name=name) for name in inits.split()]
    first += [Container(name=name, restartPolicy="Always") for name in sidecars.split()]
    return Pod(spec=PodSpec(restartPolicy=policy, initContainers=first, containers=containers))


def actions(which: Pod, *reports: ContainerReport, **known: Any) -> tuple[bool, list[str], bool]:
    known = {"is_sandbox_ready": True, "sandboxes": 1} | known
    made = compute_pod_actions(which, PodReport(containers=reports, **known))
    return made.needs_sandbox, [container.name for container in made.start], made.kill_pod


NEW: dict[str, Any] = {"is_sandbox_ready": False, "sandboxes": 0}
LOST: dict[str, Any] = {"is_sandbox_ready": False, "sandboxes": 1}


@pytest.mark.parametrize(
    ("which", "reports", "known", "expected"),
    [
        (pod(), [], NEW, (True, ["main", "other"], False)),
        (pod(inits="a b"), [], NEW, (True, ["a"], False)),
        (pod(), [found("main"), found("other")], {}, (False, [], False)),
        (pod(), [found("main"), found("other", EXITED)], {}, (False, ["other"], False)),
        (pod("OnFailure"), [found("main"), found("other", EXITED)], {}, (False, [], False)),
        (pod("OnFailure"), [found("main", EXITED, 1), found("other")], {}, (False, ["main"], False)),
        (pod("Never"), [found("main", EXITED, 1), found("other", EXITED)], {}, (False, [], True)),
        (pod(inits="a b"), [found("a")], {}, (False, [], False)),
        (pod(inits="a b"), [found("a", EXITED)], {}, (False, ["b"], False)),
        (pod(inits="a b"), [found("a", EXITED, 1)], {}, (False, ["a"], False)),
        (pod("Never", inits="a b"), [found("a", EXITED, 1)], {}, (False, [], True)),
        (pod(inits="a"), [found("a", EXITED)], {}, (False, ["main", "other"], False)),
        (pod(sidecars="s"), [found("s", is_started=False)], {}, (False, [], False)),
        (pod(sidecars="s"), [found("s")], {}, (False, ["main", "other"], False)),
        (pod(sidecars="s"), [found("s", EXITED), found("main"), found("other")], {}, (False, ["s"], False)),
        (
            pod("Never", sidecars="s"),
            [found("s"), found("main", EXITED), found("other", EXITED)],
            {},
            (False, [], True),
        ),
        (pod(), [found("main", EXITED, 255), found("other", EXITED, 255)], LOST, (True, ["main", "other"], False)),
        (pod("Never"), [found("main", EXITED, 255)], LOST, (False, [], True)),
        (pod("OnFailure"), [found("main", EXITED), found("other", EXITED)], LOST, (False, [], True)),
    ],
)
def test_actions(
    which: Pod, reports: list[ContainerReport], known: dict[str, Any], expected: tuple[bool, list[str], bool]
) -> None:
    assert actions(which, *reports, **known) == expected


def test_a_containers_own_rules_count_most() -> None:
    which = pod("Never")
    assert which.spec.containers is not None
    codes = ContainerRestartRuleOnExitCodes(operator="In", values=[42])
    which.spec.containers[0].restartPolicy = "Never"
    which.spec.containers[0].restartPolicyRules = [ContainerRestartRule(action="Restart", exitCodes=codes)]
    other = found("other")
    assert actions(which, found("main", EXITED, 42), other) == (False, ["main"], False)
    assert actions(which, found("main", EXITED, 1), other) == (False, [], False)


def test_ephemeral_containers_start_once() -> None:
    which = pod()
    which.spec.ephemeralContainers = [EphemeralContainer(name="d"), EphemeralContainer(name="e")]
    left = ephemeral_to_start(which, PodReport(containers=[found("d", EXITED, 1)]))
    assert [container.name for container in left] == ["e"]


def test_sidecars_stop_last_and_from_the_last() -> None:
    which = pod(sidecars="s t")
    every = [found("s"), found("t"), found("main"), found("other", EXITED)]
    assert stop_order(which, PodReport(containers=every)) == ["main"]
    assert stop_order(which, PodReport(containers=[*every[:2], found("main", EXITED)])) == ["t"]
    assert stop_order(which, PodReport(containers=[found("s"), found("t", EXITED)])) == ["s"]
    assert stop_order(which, PodReport(containers=[found("s", EXITED)])) == []
