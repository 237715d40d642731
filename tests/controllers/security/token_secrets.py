"""Service accounts, and secrets that hold their tokens."""

from pathlib import Path

from sampan.api.semantics.secret_types import SERVICE_ACCOUNT_TOKEN
from sampan.api.types.core_v1 import Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.security import account_tokens
from sampan.machinery.pki.certificates import make_key
from tests.controllers.cluster import Cluster

KEY = make_key()


def config(directory: Path) -> ControllerConfig:
    (directory / "sa.key").write_bytes(KEY.key)
    return ControllerConfig(root_ca="the bundle", service_account_private_key_file=str(directory / "sa.key"))


def token_secret(name: str, account: str, **labels: str) -> Secret:
    meta = ObjectMeta(name=name, namespace="default", annotations={account_tokens.NAME_KEY: account}, labels=labels)
    return Secret(metadata=meta, type=SERVICE_ACCOUNT_TOKEN)


async def account(c: Cluster, name: str = "robot") -> ServiceAccount:
    return await c.client.for_kind(ServiceAccount).create(
        ServiceAccount(metadata=ObjectMeta(name=name, namespace="default"))
    )
