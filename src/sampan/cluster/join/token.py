"""Bootstrap tokens: the text that a user passes to `sampan join`, and the Secret that the cluster keeps (kubeadm's
`bootstraptoken` API).

The text is `ID.SECRET@sha256:HASH`. `ID.SECRET` is the bootstrap token of Kubernetes; the rest pins the CA of the
cluster by the hash of its public key, as `kubeadm join --discovery-token-ca-cert-hash` does. A machine that joins thus
needs one string, and sends the secret only to a server with a certificate of that CA.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.secret_types import BOOTSTRAP_TOKEN
from sampan.api.types.core_v1 import Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.times import format_time
from sampan.controllers.security.bootstrap_tokens import NAMESPACE, ONE_USE_GROUP, text_of

DEFAULT_GROUP = "system:bootstrappers:kubeadm:default-node-token"
"""The group to which kubeadm grants the permissions that a node needs in order to join."""
AUTHENTICATION, SIGNING = "authentication", "signing"
USAGES = (SIGNING, AUTHENTICATION)
NAME_PREFIX = "bootstrap-token-"
_ID_LENGTH, _SECRET_LENGTH = 6, 16
_ALPHABET = string.ascii_lowercase + string.digits
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})(?:@(sha256:[0-9a-f]{64}))?")
_ID = re.compile(r"[a-z0-9]{6}")


class BadToken(ValueError):
    """The text is not a bootstrap token. The message contains no part of the text, as it may contain the secret."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    id: str
    secret: str = field(repr=False)
    ca_hash: str = ""
    """The hash of the CA's public key, `sha256:HEX`; empty if the token does not pin the CA."""

    @property
    def bearer(self) -> str:
        """The token as a bearer token, ID.SECRET, which authenticates requests."""
        return f"{self.id}.{self.secret}"

    def __str__(self) -> str:
        return f"{self.bearer}@{self.ca_hash}" if self.ca_hash else self.bearer


def new_token(ca_hash: str) -> JoinToken:
    token_id, secret = (
        "".join(secrets.choice(_ALPHABET) for _ in range(length)) for length in (_ID_LENGTH, _SECRET_LENGTH)
    )
    return JoinToken(token_id, secret, ca_hash)


def parse_token(text: str) -> JoinToken:
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise BadToken("not a join token: want ID.SECRET@sha256:HASH, as `sampan token create` prints it")
    return JoinToken(match[1], match[2], match[3] or "")


def parse_token_id(text: str) -> str:
    """Return the token id in `text`, which is a token id or a whole token."""
    if _ID.fullmatch(text):
        return text
    return parse_token(text).id


def secret_name(token_id: str) -> str:
    return f"{NAME_PREFIX}{token_id}"


def token_secret(
    token: JoinToken,
    *,
    expires: float | None,
    usages: Sequence[str] = USAGES,
    groups: Sequence[str] = (DEFAULT_GROUP,),
    description: str = "",
    is_one_use: bool = False,
) -> Secret:
    """Return the Secret of a token. A token for one use is in a further group, which the CSR approver recognizes."""
    data = {"token-id": token.id, "token-secret": token.secret}
    if description:
        data["description"] = description
    if expires is not None:
        data["expiration"] = format_time(int(expires))
    data |= {f"usage-bootstrap-{usage}": "true" for usage in usages}
    if AUTHENTICATION in usages:
        data["auth-extra-groups"] = ",".join([*groups, *([ONE_USE_GROUP] if is_one_use else [])])
    return Secret(
        metadata=ObjectMeta(name=secret_name(token.id), namespace=NAMESPACE),
        type=BOOTSTRAP_TOKEN,
        data={key: value.encode() for key, value in data.items()},
    )


def groups_of(secret: Secret) -> list[str]:
    return [group for group in text_of(secret, "auth-extra-groups").split(",") if group]


def usages_of(secret: Secret) -> list[str]:
    return [usage for usage in (AUTHENTICATION, SIGNING) if text_of(secret, f"usage-bootstrap-{usage}") == "true"]


def is_one_use(secret: Secret) -> bool:
    return ONE_USE_GROUP in groups_of(secret)
