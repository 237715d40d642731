"""Local caches of the cluster's state: a reflector follows a resource, an informer keeps what it tells and calls
handlers, a factory shares informers, listers and indexes read them."""

from sampan.machinery.informer.cache import IndexFunction, Lister, by_controller, by_namespace, by_owner
from sampan.machinery.informer.factory import InformerFactory
from sampan.machinery.informer.informer import Handler, Informer
from sampan.machinery.informer.reflector import Reflector, ReflectorConfig, Sink

__all__ = [
    "Handler",
    "IndexFunction",
    "Informer",
    "InformerFactory",
    "Lister",
    "Reflector",
    "ReflectorConfig",
    "Sink",
    "by_controller",
    "by_namespace",
    "by_owner",
]
