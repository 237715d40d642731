"""The resource type and namespace of an object from a file."""

from __future__ import annotations

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import Kind, Kinds, NoSuchKind
from sampan.cli.kubectl.manifests import Manifest
from sampan.cli.kubectl.session import Session


def kind_for(kinds: Kinds, manifest: Manifest) -> Kind:
    try:
        return kinds.of(manifest.api_version, manifest.kind)
    except NoSuchKind as error:
        raise CliError(
            f'resource mapping not found for name: "{manifest.name}" namespace: "{manifest.namespace}" '
            f'from "{manifest.source}": {error.message}\nensure CRDs are installed first'
        ) from None


def namespace_for(kind: Kind, manifest: Manifest, session: Session, asked: str) -> str:
    """Return the namespace of the object, or else that of the session. Raise CliError if it contradicts --namespace."""
    if not kind.is_namespaced:
        return ""
    own = manifest.namespace
    if own and asked and own != asked:
        raise CliError(
            f'the namespace from the provided object "{own}" does not match the namespace "{asked}". '
            f"You must pass '--namespace={own}' to perform this operation."
        )
    return own or session.namespace
