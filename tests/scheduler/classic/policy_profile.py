"""Simulations with one plugin of classic policies, and random services whose pods it spreads or keeps together."""

from typing import Any

from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, Pod, Service, ServiceSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.scheduler.config import PluginChoice, ProfileConfig
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import (
    ZONE,
    Situation,
    fill_informers,
    optional,
)

PLUGIN = "Mine"
LABELS = ["disk", ZONE]


def profile(plugin: str, **args: Any) -> ProfileConfig:
    always = [PluginChoice("PrioritySort"), PluginChoice("DefaultBinder")]
    return ProfileConfig(plugins=[*always, PluginChoice(PLUGIN, plugin=plugin)], args={PLUGIN: args})


def simulate(situation: Situation, services: list[Service], plugin: str, **args: Any) -> Simulation:
    simulation = situation.simulation(profile=profile(plugin, **args))
    fill_informers(simulation, *services)
    return simulation


@st.composite
def services(draw: Any) -> list[Service]:
    count = draw(st.integers(0, 3))
    return [
        Service(
            metadata=ObjectMeta(name=f"s{number}", namespace=draw(st.sampled_from("xy"))),
            spec=ServiceSpec(selector=draw(optional(app=["a", "b"], tier=["front"]))),
        )
        for number in range(count)
    ]


def service_selectors(services: list[Service], pod: Pod) -> list[dict[str, str]]:
    """The selectors of the pod's services."""
    return [
        service.spec.selector
        for service in services
        if service.metadata.namespace == pod.metadata.namespace
        and service.spec.selector
        and all(pod.metadata.labels.get(key) == value for key, value in service.spec.selector.items())
    ]


def selected_pods(situation: Situation, selector: dict[str, str]) -> list[tuple[Pod, Node]]:
    """Pods on nodes that are in the new pod's namespace and have the labels."""
    return [
        (pod, node)
        for pod, node in situation.placed_pods
        if pod.metadata.namespace == situation.pod.metadata.namespace
        and all(pod.metadata.labels.get(key) == value for key, value in selector.items())
    ]
