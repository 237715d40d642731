"""The ClusterTrustBundle of the API server."""

import hashlib
from dataclasses import replace

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.certificates_v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.security.trust_bundle_publisher import SIGNER, TrustBundlePublisherController, bundle_name
from sampan.machinery.pki.certificates import make_ca
from tests.controllers.cluster import CONFIG, Cluster, cluster

PUBLISHER = TrustBundlePublisherController.name
GATES = FeatureGates(level=37)


def make_bundle(name: str) -> str:
    return make_ca(name, now=1_767_225_600).certificate.decode()


async def bundles(c: Cluster) -> dict[str, str]:
    await c.clock.settle()
    page = await c.client.for_kind(ClusterTrustBundle).list()
    return {bundle.metadata.name: bundle.spec.trustBundle for bundle in page.items}


def test_name_depends_on_the_content() -> None:
    digest = hashlib.sha256(b"x").hexdigest()[:24]
    assert bundle_name("example.com/signer", "x") == f"example.com:signer:{digest}"


async def test_one_bundle_of_the_signer_is_kept() -> None:
    first, second = make_bundle("first"), make_bundle("second")
    async with cluster(feature_gates=GATES) as c:
        client = c.client.for_kind(ClusterTrustBundle)
        other = ClusterTrustBundle(metadata=ObjectMeta(name="other"), spec=ClusterTrustBundleSpec(trustBundle=second))
        await client.create(other)
        async with c.running(PUBLISHER, config=replace(CONFIG, root_ca=first, feature_gates=GATES)):
            assert await bundles(c) == {bundle_name(SIGNER, first): first, "other": second}
            await client.delete(bundle_name(SIGNER, first))
            assert await bundles(c) == {bundle_name(SIGNER, first): first, "other": second}
        config = replace(CONFIG, root_ca=second, feature_gates=GATES)
        async with c.running(PUBLISHER, config=config):
            assert await bundles(c) == {bundle_name(SIGNER, second): second, "other": second}
        before = await c.revision()
        async with c.running(PUBLISHER, config=config):
            await c.clock.advance(60)
        assert await c.revision() == before


async def test_nothing_is_published_without_certificates_or_gate() -> None:
    off = FeatureGates(level=36)
    async with cluster(feature_gates=off) as c:
        for config in (
            replace(CONFIG, root_ca=make_bundle("ca"), feature_gates=off),
            replace(CONFIG, root_ca="", feature_gates=GATES),
        ):
            async with c.running(PUBLISHER, config=config) as manager:
                assert not manager.runners
