"""NodeDeclaredFeatures against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import ContainerRestartRule
from tests.scheduler.random_clusters import Situation, few, rejections, situations

FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "SomethingElse")


@few
@given(situations(most_pods=0), st.booleans(), st.sampled_from([None, True, False]), st.booleans(), st.data())
def test_nodes_must_declare_the_features_that_a_pod_needs(
    situation: Situation, restarts_all: bool, host_users: bool | None, host_network: bool, data: st.DataObject
) -> None:
    pod = situation.pod
    assert pod.spec.containers
    action = "RestartAllContainers" if restarts_all else "Restart"
    pod.spec.containers[0].restartPolicyRules = [ContainerRestartRule(action=action)]
    pod.spec.hostUsers, pod.spec.hostNetwork = host_users, host_network
    for node in situation.nodes:
        node.status.declaredFeatures = data.draw(st.lists(st.sampled_from(FEATURES), unique=True))
    needed = set(FEATURES[:1] if restarts_all else ()) | set(
        FEATURES[1:2] if host_network and host_users is False else ()
    )
    expected = {
        node.metadata.name: (("node(s) didn't match Pod's required features",), True)
        for node in situation.nodes
        if needed - set(node.status.declaredFeatures)
    }
    assert rejections(situation.simulation("NodeDeclaredFeatures"), "NodeDeclaredFeatures", pod) == expected
