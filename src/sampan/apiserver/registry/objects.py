"""Objects of kinds without a Struct, as the registry calls them."""

from sampan.api.unstructured import Unstructured

__all__ = ["Unstructured"]
