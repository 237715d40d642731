"""Testing tools as public API: clusters in a test, builders of objects, a pytest plugin, and conformance suites for
every contract with more than one implementation.

It may import everything; nothing else in Sampan imports it. `Cluster` and the other names are imported on first use, so
that the pytest plugin costs nothing in test runs that do not use it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sampan.testing.errors import UnsupportedByCluster, WaitTimeout

if TYPE_CHECKING:
    from sampan.testing.cluster import Cluster
    from sampan.testing.external_cluster import ExternalCluster
    from sampan.testing.unittest_case import ClusterTestCase

_MODULES = {"Cluster": "cluster", "ClusterTestCase": "unittest_case", "ExternalCluster": "external_cluster"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = ["Cluster", "ClusterTestCase", "ExternalCluster", "UnsupportedByCluster", "WaitTimeout"]
