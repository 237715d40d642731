"""SelectorSpread, a plugin of classic policies, against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, Service
from tests.scheduler.classic.policy_profile import PLUGIN, selected_pods, service_selectors, services, simulate
from tests.scheduler.random_clusters import ZONE, Situation, draw_nodes, few, labels, scores, situations


@few
@given(situations(), services(), labels, st.booleans(), st.data())
def test_pods_of_a_service_are_spread_over_nodes_and_zones(
    situation: Situation, services_: list[Service], own: dict[str, str], only: bool, data: st.DataObject
) -> None:
    pod = situation.pod
    pod.metadata.labels = own
    among = draw_nodes(situation, data)
    merged = {key: value for selector in service_selectors(services_, pod) for key, value in selector.items()}
    simulation = simulate(situation, services_, "SelectorSpread", servicesOnly=only)
    scores_ = scores(simulation, PLUGIN, pod, [node.metadata.name for node in among])
    if not merged or pod.spec.topologySpreadConstraints:
        assert scores_ is None
        return
    alive = [(pod_, node) for pod_, node in selected_pods(situation, merged) if pod_.metadata.deletionTimestamp is None]
    counts = {node.metadata.name: sum(other is node for _, other in alive) for node in among}
    zones: dict[str, int] = {}
    for node in among:
        if (zone := node.metadata.labels.get(ZONE)) is not None:
            zones[zone] = zones.get(zone, 0) + counts[node.metadata.name]

    def score(node: Node) -> int:
        on_node = emptiness(counts[node.metadata.name], max(counts.values()))
        zone = node.metadata.labels.get(ZONE)
        if zone is None:
            return int(on_node)
        return int(on_node * (1 - 2 / 3) + 2 / 3 * emptiness(zones[zone], max(zones.values())))

    assert scores_ == {node.metadata.name: score(node) for node in among}


def emptiness(count: int, most: int) -> float:
    return 100 * ((most - count) / most) if most else 100.0
