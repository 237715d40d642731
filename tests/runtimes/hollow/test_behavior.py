"""The behavior of hollow containers, from annotations and stages."""

from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Container, ContainerPort, Pod, PodSpec, Probe
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.runtimes.hollow import NO_STAGES, StageError, read_stages
from sampan.runtimes.hollow.behavior import FOREVER, BehaviorError, annotation_errors, run_span, span


def pod(*, policy: str = "Always", owner: str = "", **annotations: str) -> Pod:
    prefixed = {f"hollow.sampan.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    meta = ObjectMeta(name="p", namespace="default", uid="u", labels={"app": "web"}, annotations=prefixed)
    if owner:
        meta.ownerReferences = [OwnerReference(kind=owner, name="o", uid="o", controller=True)]
    return Pod(
        metadata=meta, spec=PodSpec(restartPolicy=policy, nodeName="node-1", containers=[Container(name="main")])
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", (5, 5)),
        ("1.5", (1.5, 1.5)),
        ("1m30s", (90, 90)),
        ("forever", (FOREVER, FOREVER)),
        ("5s..10s", (5, 10)),
    ],
)
def test_spans_are_parsed(text: str, expected: tuple[float, float]) -> None:
    parsed = span(text)
    assert (parsed.min_s, parsed.max_s) == expected


@pytest.mark.parametrize("text", ["", "soon", "10s..5s", "5s-10s"])
def test_invalid_spans_are_rejected(text: str) -> None:
    with pytest.raises(BehaviorError):
        span(text)


def test_pick_from_a_range_depends_only_on_the_seed() -> None:
    parsed = span("5s..10s")
    picked = {seed: parsed.pick(seed) for seed in "abcdefgh"}
    assert len(set(picked.values())) == 8
    assert all(5 <= value <= 10 for value in picked.values())
    assert picked == {seed: parsed.pick(seed) for seed in "abcdefgh"}


def test_container_annotations_override_pod_annotations() -> None:
    hollow_pod = pod(run="5s", **{"run.main": "7s", "exit-code": "1,1,0"})
    main, other = NO_STAGES.behavior(hollow_pod, "main"), NO_STAGES.behavior(hollow_pod, "other")
    assert main.run is not None
    assert other.run is not None
    assert (main.run.min_s, other.run.min_s) == (7, 5)
    assert [main.exit_code(attempt) for attempt in range(4)] == [1, 1, 0, 0]


def test_invalid_annotations_are_ignored() -> None:
    hollow_pod = pod(run="soon", nonsense="1", **{"exit-code": "300"})
    assert NO_STAGES.behavior(hollow_pod, "main") == NO_STAGES.behavior(pod(), "main")


@pytest.mark.parametrize(
    ("hollow_pod", "is_init", "expected"),
    [
        (pod(), False, FOREVER),
        (pod(owner="Workflow"), False, FOREVER),
        (pod(policy="Never"), False, 1),
        (pod(policy="OnFailure"), False, 1),
        (pod(), True, 0),
        (pod(policy="Never", owner="Job"), False, 1),
        (pod(policy="Never", owner="Workflow"), False, 1),
        (pod(policy="Never", run="1m"), False, 60),
        (pod(policy="Never", owner="Job", run="forever"), False, FOREVER),
    ],
)
def test_default_run_time_of_containers(hollow_pod: Pod, is_init: bool, expected: float) -> None:
    behavior = NO_STAGES.behavior(hollow_pod, "main")
    assert run_span(behavior, hollow_pod, Container(name="main"), is_init=is_init).min_s == expected


@pytest.mark.parametrize(
    "server",
    [
        Container(name="main", ports=[ContainerPort(containerPort=80)]),
        Container(name="main", readinessProbe=Probe()),
        Container(name="main", livenessProbe=Probe()),
        Container(name="main", startupProbe=Probe()),
    ],
)
def test_server_runs_forever_unless_a_job_owns_its_pod(server: Container) -> None:
    behavior = NO_STAGES.behavior(pod(), "main")
    assert run_span(behavior, pod(policy="OnFailure"), server, is_init=False).min_s == FOREVER
    assert run_span(behavior, pod(policy="OnFailure", owner="Job"), server, is_init=False).min_s == 1


def test_sidecar_runs_forever_by_default() -> None:
    sidecar = Container(name="main", restartPolicy="Always")
    assert run_span(NO_STAGES.behavior(pod(), "main"), pod(), sidecar, is_init=True).min_s == FOREVER


STAGES = """
stages:
- name: everybody
  start: 1s
- match: {namespace: default, labels: app=web, container: main, node: node-1}
  run: 1m..5m
  exit-code: [1, 0]
- match: {labels: app=other}
  start: 9s
"""


def test_stages_apply_to_matching_containers(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(STAGES)
    stages = read_stages(path)
    behavior = stages.behavior(pod(), "main")
    assert behavior.start.min_s == 1
    assert behavior.run is not None
    assert (behavior.run.max_s, behavior.exit_codes) == (300, (1, 0))
    assert stages.behavior(pod(), "other").run is None
    assert stages.behavior(pod(start="3s"), "main").start.min_s == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "want an object with the single field stages"),
        ("stages: {}", "want an object with the single field stages"),
        ("stages: [1]", "stage 1 must be an object"),
        ("stages: [{match: {pod: x}}]", "stage 1: match takes namespace, labels, container, node"),
        ("stages: [{start: 1s}, {walk: 1s}]", "stage 2: there is no 'walk'; supported: pull, "),
        ("stages: [{match: {labels: 'a in ('}}]", "stage 1: "),
        ("stages: [", "stages.yaml: "),
    ],
)
def test_invalid_stages_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(text)
    with pytest.raises(StageError) as raised:
        read_stages(path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("run", "5s", ""),
        ("run.main", "5s", ""),
        ("runn", "1s", "annotation hollow.sampan.dev/runn is unknown and ignored: did you mean hollow.sampan.dev/run?"),
        ("exit-codes", "1", "did you mean hollow.sampan.dev/exit-code?"),
        ("zzz", "1", "is unknown and ignored: supported: pull, "),
        ("run", "5x", "annotation hollow.sampan.dev/run is ignored: want a time as in 5, "),
        ("memory", "much", "annotation hollow.sampan.dev/memory is ignored: "),
        ("run.side", "1s", "the pod has no container 'side'; it has main"),
    ],
)
def test_annotations_without_effect_are_reported(annotation: str, value: str, message: str) -> None:
    errors = annotation_errors({f"hollow.sampan.dev/{annotation}": value, "other.dev/runn": "1s"}, ["main"])
    assert (errors == []) if not message else (len(errors) == 1 and message in errors[0])
