"""root-ca-certificate-publisher-controller, which keeps the cluster CA bundle in a ConfigMap in every namespace."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.types.core_v1 import ConfigMap, Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.namespace_phase import ACTIVE, is_namespace_terminating, namespace_name, namespace_of
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

NAME = "kube-root-ca.crt"
DESCRIPTION_KEY = "kubernetes.io/description"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_ROOT_CA_SELECTION = Selection(fields=f"metadata.name={NAME}")


def build_config_map(namespace: str, bundle: str) -> ConfigMap:
    meta = ObjectMeta(name=NAME, namespace=namespace, annotations={DESCRIPTION_KEY: DESCRIPTION})
    return ConfigMap(metadata=meta, data={"ca.crt": bundle})


def is_right(config_map: ConfigMap, bundle: str) -> bool:
    """Whether the ConfigMap holds exactly the bundle and has a description; any description is accepted."""
    return config_map.data == {"ca.crt": bundle} and bool(config_map.metadata.annotations.get(DESCRIPTION_KEY))


def correct_config_map(config_map: ConfigMap, bundle: str) -> ConfigMap:
    fixed = copy_of(config_map)
    fixed.data = {"ca.crt": bundle}
    fixed.metadata.annotations[DESCRIPTION_KEY] = DESCRIPTION
    return fixed


def _active_namespace_keys(namespace: Any) -> Iterable[Hashable]:
    return namespace_name(namespace) if namespace.status.phase == ACTIVE else ()


class RootCaPublisherController:
    name = "root-ca-certificate-publisher-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, bundle: str) -> None:
        self._maps = client.for_kind(ConfigMap)
        self._namespaces = informers.for_kind(Namespace).lister
        self._known = informers.for_kind(ConfigMap, _ROOT_CA_SELECTION).lister
        self._bundle = bundle
        self.watches = (
            Watch(resource_of(Namespace), _active_namespace_keys),
            Watch(resource_of(ConfigMap), namespace_of, _ROOT_CA_SELECTION),
        )

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.status.phase != ACTIVE:
            return
        config_map = self._known.get(NAME, key)
        try:
            if config_map is None:
                await self._maps.create(build_config_map(key, self._bundle))
            elif not is_right(config_map, self._bundle):
                await self._maps.update(correct_config_map(config_map, self._bundle))
        except (errors.NotFound, errors.AlreadyExists):
            return
        except errors.ApiError as error:
            if not is_namespace_terminating(error):
                raise


def make(context: ControllerContext) -> RootCaPublisherController | None:
    bundle = context.config.root_ca
    return context.build(RootCaPublisherController, bundle=bundle) if bundle else None
