"""ServiceAccount: the identity of a pod."""

from collections.abc import Iterable

from sampan.api.types.core_v1 import ObjectReference, ServiceAccount
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.kinds.serviceaccount_token import create_token
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME

_MOUNTABLE_ONLY = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    return_deleted_object = True
    validates_whole = True
    columns = (NAME, AGE)

    def prepare_for_create(self, ctx: Context, obj: ServiceAccount) -> None:
        obj.secrets = [ObjectReference(name=secret.name) for secret in obj.secrets]

    def prepare_for_update(self, ctx: Context, obj: ServiceAccount, old: ServiceAccount) -> None:
        self.prepare_for_create(ctx, obj)

    def warnings(self, ctx: Context, obj: ServiceAccount, old: ServiceAccount | None) -> Iterable[str]:
        is_old = old is not None and _MOUNTABLE_ONLY in old.metadata.annotations
        if _MOUNTABLE_ONLY in obj.metadata.annotations and not is_old:
            instead = "prefer separate namespaces to isolate access to mounted secrets"
            yield f"metadata.annotations[{_MOUNTABLE_ONLY}]: deprecated in v1.32+; {instead}"


BEHAVIOUR = ResourceBehaviour(strategy=ServiceAccountStrategy(), handlers={"token": create_token})
