"""Registry credentials from Docker configuration files and image pull secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from sampan.runtimes.images.reference import DEFAULT_REGISTRY, ImageReference

_HUB = ("index.docker.io", "docker.io", "registry-1.docker.io")


class RegistryCredentials(NamedTuple):
    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r})"


class Keyring:
    """Credentials by registry, or by registry and repository prefix. The longest match is tried first."""

    def __init__(self, rows: Iterable[tuple[str, RegistryCredentials]] = ()) -> None:
        self._rows = sorted(rows, key=lambda row: -len(row[0]))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def find(self, reference: ImageReference) -> list[RegistryCredentials]:
        """Return the credentials that match an image, in the order in which to try them."""
        return [credentials for pattern, credentials in self._rows if _matches(pattern, reference)]

    @classmethod
    def merge(cls, rings: Sequence[Keyring]) -> Keyring:
        return cls(row for ring in rings for row in ring._rows)


def read_docker_config(data: bytes) -> Keyring:
    """Parse a `.dockerconfigjson`, or a legacy `.dockercfg`, which consists of the content of `auths`. Raise ValueError
    if it is neither."""
    try:
        config = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"this is not a Docker configuration: {error}") from None
    auths = config.get("auths", config if all(isinstance(value, dict) for value in config.values()) else {})
    if not isinstance(auths, Mapping):
        raise ValueError("this is not a Docker configuration: auths must be an object")
    return Keyring(
        (_place(str(registry)), _credentials(auth)) for registry, auth in auths.items() if isinstance(auth, Mapping)
    )


def _credentials(auth: Mapping[str, Any]) -> RegistryCredentials:
    username, password = str(auth.get("username") or ""), str(auth.get("password") or "")
    if packed := auth.get("auth"):
        try:
            username, _, password = base64.b64decode(str(packed), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError("this is not a Docker configuration: auth is not base64") from None
    return RegistryCredentials(
        username, password.rstrip("\0"), str(auth.get("identitytoken") or ""), str(auth.get("registrytoken") or "")
    )


def _place(registry: str) -> str:
    """Return the registry and path of an entry without the scheme and the API version, which old files contain."""
    text = registry.split("://", 1)[-1].rstrip("/")
    for version in ("/v1", "/v2"):
        text = text.removesuffix(version)
    host, slash, remainder = text.partition("/")
    return f"{DEFAULT_REGISTRY if host in _HUB else host}{slash}{remainder}"


def _matches(place: str, reference: ImageReference) -> bool:
    host, _, path = place.partition("/")
    if not _is_host(host, reference.registry):
        return False
    return not path or reference.repository == path or reference.repository.startswith(f"{path}/")


def _is_host(pattern: str, host: str) -> bool:
    """Whether a host matches a pattern, in which a star matches within one label of the domain name."""
    parts, labels = pattern.split("."), host.split(".")
    return len(parts) == len(labels) and all(fnmatchcase(name, part) for part, name in zip(parts, labels, strict=True))
