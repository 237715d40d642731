"""What tests need, as public API: clusters in a test, builders of objects, a pytest plug-in, conformance suites for
every contract with more than one implementation.

May import everything; nothing else in Sampan imports it. `Cluster` is loaded when it is first used, so that the pytest
plug-in costs a test run that does not use it nothing.
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
