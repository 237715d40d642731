"""The default imagePullPolicy, which depends on the tag: "latest", also if implied, means Always."""

import re

from sampan.host.bounded_cache import BoundedCache

_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_PART}(?:\.{_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_STEP = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_reference = re.compile(
    rf"(?P<name>{_HOST}/{_STEP}(?:/{_STEP})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>\S+))?", re.ASCII
).fullmatch
_digest = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}").fullmatch
_is_identifier = re.compile(r"[a-f0-9]{64}").fullmatch
_MAX_REPOSITORY_LENGTH = 255


def pull_policy(image: str) -> str:
    """Return the default imagePullPolicy of an image."""
    return _pull_policies[image]


def _find_pull_policy(image: str) -> str:
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


_pull_policies = BoundedCache(_find_pull_policy, max_entries=4096)


def _tag(image: str) -> str:
    """Return the tag, "latest" without tag and digest, "" for an invalid reference."""
    if _is_identifier(image):
        return ""
    reference = _reference(_add_default_host(image))
    if reference is None or len(reference["name"].partition("/")[2]) > _MAX_REPOSITORY_LENGTH:
        return ""
    if reference["digest"] is not None and not _digest(reference["digest"]):
        return ""
    return reference["tag"] or ("" if reference["digest"] else "latest")


def _add_default_host(image: str) -> str:
    first, slash, remainder = image.partition("/")
    is_host = slash and (any(mark in first for mark in ".:") or first == "localhost" or first != first.lower())
    if not is_host:
        return f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    return (
        f"docker.io/library/{remainder}"
        if first in ("docker.io", "index.docker.io") and "/" not in remainder
        else image
    )
