"""Re-exports `Unstructured`, the type of objects of kinds without a Struct."""

from sampan.api.unstructured import Unstructured

__all__ = ["Unstructured"]
