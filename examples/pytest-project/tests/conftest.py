"""The fixtures of the example tests: a cluster that is prepared once, and manifests."""

from pathlib import Path

import pytest

MANIFESTS = Path(__file__).parent.parent / "manifests"


@pytest.fixture(scope="session")
def sampan_cluster(sampan_cluster):
    """The cluster of the run, prepared once: every fork starts with the definition and the objects of manifests/."""
    sampan_cluster.apply(MANIFESTS)
    return sampan_cluster


@pytest.fixture
def website():
    """A function that returns the manifest of a Website."""

    def make(name="site", image="site:1.0", replicas=2):
        spec = {"image": image, "replicas": replicas}
        return {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name}, "spec": spec}

    return make
