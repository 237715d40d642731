"""Re-export of the type of objects without a Struct."""

from sampan.api.unstructured import Unstructured

__all__ = ["Unstructured"]
