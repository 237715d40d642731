"""Testing tools as public API: clusters in a test, builders of objects, a pytest plug-in, and conformance suites for
every contract with more than one implementation.

It may import everything; nothing else in Sampan imports it. `Cluster` is imported on first use, so that the pytest
plug-in costs nothing in test runs that do not use it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.testing.cluster import Cluster


def __getattr__(name: str) -> Any:
    if name == "Cluster":
        from sampan.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Cluster"]
