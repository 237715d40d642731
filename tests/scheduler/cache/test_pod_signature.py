"""Cached results depend on the pod signature alone, and on no other field of a pod."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given

from sampan.api.types.core_v1 import Container, Pod, PodSpec
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature, PodSignatureTable, select_signature_fields
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig
from sampan.scheduler.framework import CycleState, Handle, PluginScope, Rows, Status
from sampan.scheduler.framework.extension_points import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    SchedulerPlugin,
    ScoreExtensions,
    ScorePlugin,
)
from sampan.scheduler.plugins.registry import PLUGINS
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import Situation, situations

LOCAL_ARGS = {"NodeLabel": {"labels": ["disk"]}, "ServiceAffinity": {"labels": ["disk"]}}
OTHERS = [PluginChoice(name) for name in PLUGINS if name not in {choice.name for choice in DEFAULT_PLUGINS}]
EVERY_PLUGIN = ProfileConfig(plugins=(*DEFAULT_PLUGINS, *OTHERS), args=LOCAL_ARGS)

SIGNED_FIELDS = {
    "affinity",
    "containers",
    "hostNetwork",
    "hostUsers",
    "initContainers",
    "nodeSelector",
    "overhead",
    "resources",
    "schedulingGroup",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
}


class _Unreadable:
    """A stand-in for a pod that raises when a field is read."""

    def __getattr__(self, field: str) -> None:
        raise AssertionError(f"a plugin whose results are cached by signature reads pod.{field}")


class _SignatureOnly(PodInfo):
    """A pod of which only the signature can be read."""

    def __init__(self, signature: PodSignature) -> None:
        self.signature = signature
        self.pod = _Unreadable()  # type: ignore[assignment]


def run_local_points(plugin: SchedulerPlugin, cycle: CycleState) -> None:
    """Run the points of a plugin whose results a SignatureCache keeps."""
    rows = np.flatnonzero(cycle.table.valid[cycle.table.every_row])
    status = plugin.pre_filter(cycle) if isinstance(plugin, PreFilterPlugin) else None
    if isinstance(plugin, FilterPlugin) and not isinstance(status, Status):
        plugin.filter(cycle, rows)
    skip = plugin.pre_score(cycle, rows) if isinstance(plugin, PreScorePlugin) else None
    if isinstance(plugin, ScorePlugin) and skip is None:
        scores = plugin.score(cycle, rows)
        if isinstance(plugin, ScoreExtensions) and len(scores):
            plugin.normalize(cycle, scores)


def local_plugins(simulation: Simulation) -> Iterator[SchedulerPlugin]:
    return (plugin for plugin in simulation.profile.plugins if plugin.scope is not PluginScope.CLUSTER)


def signature_cycle(simulation: Simulation, pod: Pod) -> CycleState:
    info = _SignatureOnly(simulation.pods.info(pod).signature)
    return simulation.profile.cycle(info, simulation.clock.now())


@given(situations())
def test_plugins_with_cached_results_read_only_the_signature(situation: Situation) -> None:
    simulation = Simulation(profile=EVERY_PLUGIN)
    for node in situation.nodes:
        simulation.add_node(node)
    for pod in situation.pods:
        simulation.add_pod(pod)
    cycle = signature_cycle(simulation, situation.pod)
    for plugin in local_plugins(simulation):
        run_local_points(plugin, cycle)


class ReadsThePod:
    name, scope = "ReadsThePod", PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        assert cycle.pod.spec.runtimeClassName is None
        return None


def test_plugin_that_reads_the_pod_is_detected() -> None:
    simulation = Simulation()
    cycle = signature_cycle(simulation, Pod(spec=PodSpec(containers=[])))
    with pytest.raises(AssertionError, match=r"reads pod\.spec"):
        run_local_points(ReadsThePod(simulation.handle), cycle)


def test_spec_of_a_signature_has_only_signed_fields() -> None:
    """A field that is not part of the key is empty, so that no result for all pods of the signature depends on it."""
    every = {name: f"value of {name}" for name in PodSpec.__struct_fields__}
    containers = [_with_every_field(Container(name="c"))]
    full = msgspec.structs.replace(
        PodSpec(containers=[]), **{**every, "containers": containers, "initContainers": [], "volumes": []}
    )
    signed, blank = select_signature_fields(full), select_signature_fields(PodSpec(containers=[]))
    differing = {name for name in PodSpec.__struct_fields__ if getattr(signed, name) != getattr(blank, name)}
    assert differing == SIGNED_FIELDS - {"initContainers", "volumes"}
    assert signed.containers
    kept = {name for name in Container.__struct_fields__ if getattr(signed.containers[0], name)}
    assert kept == {"image", "ports", "resources", "restartPolicy"}


def _with_every_field(container: Container) -> Container:
    values = {name: f"value of {name}" for name in Container.__struct_fields__ if name != "restartPolicyRules"}
    return msgspec.structs.replace(container, **values)


@pytest.mark.parametrize("field", sorted(set(PodSpec.__struct_fields__) - SIGNED_FIELDS))
def test_pods_that_differ_in_an_unsigned_field_share_a_signature(field: str) -> None:
    table, plain = PodSignatureTable(), PodSpec(containers=[Container(name="c", image="i")])
    assert table.get_signature(msgspec.structs.replace(plain, **{field: "value"})) is table.get_signature(plain)
