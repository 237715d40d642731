"""The resource type and namespace of an object from a file."""

from __future__ import annotations

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import ResourceType, ResourceTypes, UnknownResourceType
from sampan.cli.kubectl.manifests import ManifestObject
from sampan.cli.kubectl.session import Session


def kind_for(kinds: ResourceTypes, manifest: ManifestObject) -> ResourceType:
    try:
        return kinds.of(manifest.api_version, manifest.kind)
    except UnknownResourceType as error:
        raise CliError(
            f'resource mapping not found for name: "{manifest.name}" namespace: "{manifest.namespace}" '
            f'from "{manifest.source}": {error.message}\nensure CRDs are installed first'
        ) from None


def namespace_for(kind: ResourceType, manifest: ManifestObject, session: Session, requested: str) -> str:
    """Return the namespace of the object, or else that of the session. Raise CliError if it contradicts --namespace."""
    if not kind.is_namespaced:
        return ""
    own = manifest.namespace
    if own and requested and own != requested:
        raise CliError(
            f'the namespace from the provided object "{own}" does not match the namespace "{requested}". '
            f"You must pass '--namespace={own}' to perform this operation."
        )
    return own or session.namespace
