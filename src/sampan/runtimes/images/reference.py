"""Image names: `nginx`, `quay.io/team/app:1.2`, `app@sha256:…`."""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
_LIBRARY = "library/"
_MAX_REPOSITORY_LENGTH = 255
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_REGISTRY = re.compile(
    r"(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*)"
    r"(?::[0-9]{1,5})?"
)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class BadReference(ValueError):
    """The image name is invalid; the message gives the reason."""


class ImageReference(NamedTuple):
    registry: str
    repository: str
    tag: str = ""
    digest: str = ""
    """If set, the digest alone identifies the image."""

    @property
    def name(self) -> str:
        return f"{self.registry}/{self.repository}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}@{self.digest}" if self.digest else f"{self.name}{tag}"


def parse_reference(text: str) -> ImageReference:
    """Parse an image name, with Docker's defaults for the registry, `library/` and the tag."""
    name, path, digest = text.partition("@")
    if path and not _DIGEST.fullmatch(digest):
        raise BadReference(f"{text!r}: want a digest of the form sha256:… behind @")
    name, tag = _split_tag(name)
    if tag is not None and not _TAG.fullmatch(tag):
        raise BadReference(f"{text!r}: {tag!r} is not a tag")
    registry, repository = _split(name)
    if not _REGISTRY.fullmatch(registry):
        raise BadReference(f"{text!r}: {registry!r} is not the address of a registry")
    if not _REPOSITORY.fullmatch(repository) or len(repository) > _MAX_REPOSITORY_LENGTH:
        raise BadReference(f"{text!r}: {repository!r} is not the name of a repository (lower case)")
    return ImageReference(registry, repository, tag or ("" if digest else DEFAULT_TAG), digest)


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def _split_tag(name: str) -> tuple[str, str | None]:
    """Split a tag off a name. A colon after the last slash starts a tag; one before it starts a port."""
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    return f"{head}{slash}{last}", tag if colon else None


def _split(name: str) -> tuple[str, str]:
    first, slash, remainder = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        registry, repository = first, remainder
    else:
        registry, repository = DEFAULT_REGISTRY, name
    if registry == "index.docker.io":
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = _LIBRARY + repository
    return registry, repository
