"""Users and trust anchors of projected volumes."""

from sampan.kubelet.volumes.plugins.projected import pod_user
from sampan.kubelet.volumes.plugins.trust_bundles import merge_certificates
from tests.kubelet.volumes.pods import pod


def test_the_user_of_a_pod_is_that_of_all_its_containers() -> None:
    own = {"securityContext": {"runAsUser": 5}}
    assert pod_user(pod(own, own)) == 5
    assert pod_user(pod(own, {})) is None
    assert pod_user(pod(own, {}, securityContext={"runAsUser": 5})) == 5
    assert pod_user(pod(own, {"securityContext": {"runAsUser": 6}})) is None


def test_trust_anchors_are_joined_without_duplicates() -> None:
    first, second = (f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n" for text in ("AA==", "BA=="))
    assert merge_certificates([first + second, f"# words\n{second}"]) == (first + second).encode()
    assert merge_certificates([]) == b""
