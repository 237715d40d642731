"""serviceaccount-token-controller, which fills secrets of type service-account-token with token, CA and namespace.

It deletes the token secrets of a service account that no longer exists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sampan.api.semantics.secret_types import SERVICE_ACCOUNT_TOKEN
from sampan.api.types.core_v1 import Secret, ServiceAccount
from sampan.controllers.descriptor import ControllerContext
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, Selection, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.pki.token_signer import TokenSigner

NAME_KEY, UID_KEY = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
ACCOUNT_TOKEN_SELECTION = Selection(fields=f"type={SERVICE_ACCOUNT_TOKEN}")
ISSUER = "kubernetes/serviceaccount"
_CA, _NAMESPACE, _TOKEN = "ca.crt", "namespace", "token"


class AccountKey(NamedTuple):
    namespace: str
    name: str
    uid: str


class SecretKey(NamedTuple):
    """A secret and its service account, as named when the secret changed."""

    namespace: str
    name: str
    uid: str
    account: str
    account_uid: str


def secret_key(secret: Secret) -> SecretKey:
    meta = secret.metadata
    return SecretKey(
        meta.namespace, meta.name, meta.uid, meta.annotations.get(NAME_KEY, ""), meta.annotations.get(UID_KEY, "")
    )


def is_of(secret: Secret, account: AccountKey) -> bool:
    key = secret_key(secret)
    return key.account == account.name and key.account_uid in ("", account.uid)


def is_complete(secret: Secret, ca: bytes) -> bool:
    data = secret.data
    return bool(data.get(_NAMESPACE) and data.get(_TOKEN)) and (not ca or data.get(_CA) == ca)


def fill_secret(secret: Secret, account: ServiceAccount, ca: bytes, signer: TokenSigner) -> Secret:
    """Return a copy of the secret with its missing data filled in."""
    full = copy_of(secret)
    if ca:
        full.data[_CA] = ca
    if not full.data.get(_NAMESPACE):
        full.data[_NAMESPACE] = full.metadata.namespace.encode()
    if not full.data.get(_TOKEN):
        full.data[_TOKEN] = signer.sign(claims(account, full)).encode()
    full.metadata.annotations[NAME_KEY] = account.metadata.name
    full.metadata.annotations[UID_KEY] = account.metadata.uid
    return full


def claims(account: ServiceAccount, secret: Secret) -> dict[str, str]:
    meta, start = account.metadata, "kubernetes.io/serviceaccount/"
    return {
        "sub": f"system:serviceaccount:{meta.namespace}:{meta.name}",
        f"{start}namespace": meta.namespace,
        f"{start}secret.name": secret.metadata.name,
        f"{start}service-account.name": meta.name,
        f"{start}service-account.uid": meta.uid,
    }


def _account_keys(account: Any) -> Iterable[Hashable]:
    meta = account.metadata
    return (AccountKey(meta.namespace, meta.name, meta.uid),)


def _secret_keys(secret: Any) -> Iterable[Hashable]:
    return (secret_key(secret),) if secret.metadata.annotations.get(NAME_KEY) else ()


class ServiceAccountTokenController:
    name = "serviceaccount-token-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, signer: TokenSigner, ca: bytes) -> None:
        self._accounts, self._secrets = client.for_kind(ServiceAccount), client.for_kind(Secret)
        self._known_accounts = informers.for_kind(ServiceAccount).lister
        self._known_secrets = informers.for_kind(Secret, ACCOUNT_TOKEN_SELECTION).lister
        self._signer, self._ca = signer, ca
        self.watches = (
            Watch(resource_of(ServiceAccount), _account_keys),
            Watch(resource_of(Secret), _secret_keys, ACCOUNT_TOKEN_SELECTION),
        )

    async def reconcile(self, key: AccountKey | SecretKey) -> None:
        if isinstance(key, AccountKey):
            await self._account(key)
        else:
            await self._secret(key)

    async def _account(self, key: AccountKey) -> None:
        """Delete the token secrets of a deleted service account."""
        account = self._known_accounts.get(key.name, key.namespace)
        if account is not None and account.metadata.uid == key.uid:
            return
        for secret in self._known_secrets.list(key.namespace):
            if is_of(secret, key):
                await self._delete(secret)

    async def _secret(self, key: SecretKey) -> None:
        secret = self._known_secrets.get(key.name, key.namespace)
        if secret is None or secret.metadata.uid != key.uid:
            await self._forget(key)
            return
        account = await self._account_of(key)
        if account is None:
            await self._delete(secret)
        elif not is_complete(secret, self._ca):
            await self._complete(secret, account)

    async def _account_of(self, key: SecretKey) -> ServiceAccount | None:
        """Return the service account of a secret. If the cache does not have it, it is read from the API server,
        because the secret of a missing service account is deleted."""
        account = self._known_accounts.get(key.account, key.namespace)
        if account is None or key.account_uid not in ("", account.metadata.uid):
            try:
                account = await self._accounts.get(key.account, key.namespace)
            except errors.NotFound:
                return None
        return account if key.account_uid in ("", account.metadata.uid) else None

    async def _complete(self, secret: Secret, account: ServiceAccount) -> None:
        try:
            await self._secrets.update(fill_secret(secret, account, self._ca, self._signer))
        except (errors.Conflict, errors.NotFound):
            return  # The concurrent change enqueues the secret again.

    async def _delete(self, secret: Secret) -> None:
        meta = secret.metadata
        try:
            await self._secrets.delete(meta.name, meta.namespace, options=DeleteParameters(uid=meta.uid))
        except (errors.Conflict, errors.NotFound):
            return

    async def _forget(self, key: SecretKey) -> None:
        """Remove the reference to a deleted secret from its service account."""
        account = self._known_accounts.get(key.account, key.namespace)
        if account is None or key.account_uid not in ("", account.metadata.uid):
            return
        if all(ref.name != key.name for ref in account.secrets):
            return
        fresh = copy_of(await self._accounts.get(key.account, key.namespace))
        fresh.secrets = [ref for ref in fresh.secrets if ref.name != key.name]
        try:
            await self._accounts.update(fresh)
        except errors.NotFound:
            return


def make(context: ControllerContext) -> ServiceAccountTokenController | None:
    """Create the controller with the client of the controller manager itself, as Kubernetes does."""
    path = context.config.service_account_private_key_file
    if not path:
        return None
    signer = TokenSigner(key_pem=Path(path).read_bytes(), issuer=ISSUER)
    ca = context.config.root_ca.encode()
    return context.build(ServiceAccountTokenController, client=context.client_for(""), signer=signer, ca=ca)
