"""serviceaccount-controller, which creates the service account "default" in every active namespace."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.types.core_v1 import Namespace, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.namespace_phase import ACTIVE, is_namespace_terminating, namespace_name, namespace_of
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory

DEFAULT = "default"


def wants_account(namespace: Namespace | None, account: ServiceAccount | None) -> bool:
    return namespace is not None and namespace.status.phase == ACTIVE and account is None


def _namespace_of_default(account: Any) -> Iterable[Hashable]:
    return namespace_of(account) if account.metadata.name == DEFAULT else ()


class ServiceAccountController:
    name = "serviceaccount-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._accounts = client.for_kind(ServiceAccount)
        self._namespaces = informers.for_kind(Namespace).lister
        self._known = informers.for_kind(ServiceAccount).lister
        self.watches = (
            Watch(resource_of(Namespace), namespace_name),
            Watch(resource_of(ServiceAccount), _namespace_of_default),
        )

    async def reconcile(self, key: str) -> None:
        if not wants_account(self._namespaces.get(key), self._known.get(DEFAULT, key)):
            return
        try:
            await self._accounts.create(ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=key)))
        except errors.AlreadyExists:
            return
        except errors.ApiError as error:
            if not is_namespace_terminating(error):
                raise
