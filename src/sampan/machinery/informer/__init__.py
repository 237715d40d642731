"""Local caches of cluster state, as in client-go's `tools/cache` and `informers`: a reflector lists and watches a
resource, an informer caches the objects and calls handlers, a factory shares informers, and listers and indexes read
them."""

from sampan.machinery.informer.factory import InformerFactory
from sampan.machinery.informer.informer import (
    Handler,
    IndexFunction,
    Informer,
    Lister,
    by_controller,
    by_namespace,
    by_owner,
)
from sampan.machinery.informer.reflector import Reflector, ReflectorConfig, ReflectorSink

__all__ = [
    "Handler",
    "IndexFunction",
    "Informer",
    "InformerFactory",
    "Lister",
    "Reflector",
    "ReflectorConfig",
    "ReflectorSink",
    "by_controller",
    "by_namespace",
    "by_owner",
]
