"""Access to images pulled with credentials: a pod may use them only if it could have pulled them itself.

The record of each pull is stored in the file format of the Kubernetes kubelet (`pkg/kubelet/images/pullmanager`).
Images that this kubelet did not pull are available to all pods, unless the policy says otherwise.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.values import times
from sampan.host.durable_files import write_durably
from sampan.runtimes.images.reference import parse_reference

log = logging.getLogger(__name__)

NEVER_VERIFY, NEVER_VERIFY_PRELOADED, NEVER_VERIFY_ALLOWLISTED, ALWAYS_VERIFY = (
    *("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages"),
    "AlwaysVerify",
)
POLICIES = (NEVER_VERIFY, NEVER_VERIFY_PRELOADED, NEVER_VERIFY_ALLOWLISTED, ALWAYS_VERIFY)
_API_VERSION, _KIND, _INTENT = "kubelet.config.k8s.io/v1beta1", "ImagePulledRecord", "ImagePullIntent"


@dataclass(frozen=True, slots=True)
class PullSecret:
    """A secret with which an image was or could be pulled."""

    uid: str
    namespace: str
    name: str
    credentialHash: str


def must_verify(policy: str, listed: Sequence[str], image: str, *, is_pulled: bool) -> bool:
    """Whether a pod must prove that it may use the image; `is_pulled` if this kubelet has pulled it. Pure."""
    if policy == NEVER_VERIFY_ALLOWLISTED:
        name = parse_reference(image).name
        return is_pulled or not any(_matches(name, pattern) for pattern in listed)
    return policy == ALWAYS_VERIFY or (policy == NEVER_VERIFY_PRELOADED and is_pulled)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("/*") else name == pattern


def may_use_image(record: Mapping[str, Any] | None, image: str, own: Sequence[PullSecret]) -> bool:
    """Whether the pull record allows a pod with these secrets to use the image. Pure."""
    credentials = (record or {}).get("credentialMapping", {}).get(parse_reference(image).name)
    if credentials is None:
        return False
    if credentials.get("nodePodsAccessible"):
        return True
    coordinates = {
        (secret["uid"], secret["namespace"], secret["name"]) for secret in credentials.get("kubernetesSecrets", ())
    }
    hashes = {secret["credentialHash"] for secret in credentials.get("kubernetesSecrets", ())}
    return any(
        (secret.uid, secret.namespace, secret.name) in coordinates or secret.credentialHash in hashes for secret in own
    )


def extend_record(
    record: Mapping[str, Any] | None, reference: str, image: str, used: Sequence[PullSecret], now: float
) -> dict[str, Any]:
    """Return the record extended by one pull. After a pull without secrets all pods may use the image. Pure."""
    mapping = dict((record or {}).get("credentialMapping", {}))
    name = parse_reference(image).name
    credentials = dict(mapping.get(name, {}))
    if not used:
        credentials = {"nodePodsAccessible": True}
    elif not credentials.get("nodePodsAccessible"):
        before = [
            secret
            for secret in credentials.get("kubernetesSecrets", ())
            if secret not in [asdict(own_secret) for own_secret in used]
        ]
        credentials = {"kubernetesSecrets": before + [asdict(secret) for secret in used]}
    return {
        "kind": _KIND,
        "apiVersion": _API_VERSION,
        "lastUpdatedTime": times.format_time(now),
        "imageRef": reference,
        "credentialMapping": {**mapping, name: credentials},
    }


class ImagePullRecords:
    """Pull records on disk: one file per image, and one per pull in progress. The latter ensures that an image is never
    taken for a preloaded one if the kubelet stops between the pull and the record.
    """

    def __init__(self, root: Path) -> None:
        self._directory, self._intents = root / "image_manager" / "pulled", root / "image_manager" / "pulling"
        self._pulls: Counter[str] = Counter()
        """Number of pulls in progress by image name."""
        self._lock = threading.Lock()

    def start_pull(self, image: str) -> None:
        """Record the intent to pull the image. Raise OSError if that fails."""
        _write(_file(self._intents, image), {"kind": _INTENT, "apiVersion": _API_VERSION, "image": image})
        self._pulls[image] += 1

    def end_pull(self, image: str) -> None:
        """Remove the intent after the last concurrent pull has failed or been recorded."""
        self._pulls[image] -= 1
        if self._pulls[image] <= 0:
            del self._pulls[image]
            _file(self._intents, image).unlink(missing_ok=True)

    def is_being_pulled(self, image: str) -> bool:
        return _file(self._intents, image).exists()

    def read(self, reference: str) -> dict[str, Any] | None:
        try:
            return msgspec.json.decode(_file(self._directory, reference).read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("cannot read the pull records of image %s: %s", reference, error)
            return {}

    def add_pull(self, reference: str, image: str, used: Sequence[PullSecret], now: float) -> None:
        """Add a pull of `image` with these secrets to the record of the image with that reference. Raise OSError if
        that fails. It may be called from several threads: concurrent pulls of one image keep each other's secrets."""
        with self._lock:
            record = extend_record(self.read(reference), reference, image, used, now)
            _write(_file(self._directory, reference), record)

    def prune(self, present: Collection[str], before: float) -> None:
        """Remove the records of absent images, except those updated since `before`, whose image may have just been
        pulled.
        """
        for path in self._directory.glob("sha256-*"):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
                is_old = times.parse_time(record["lastUpdatedTime"]) < int(before)
                if is_old and record["imageRef"] not in present:
                    path.unlink()
            except (OSError, ValueError, KeyError) as error:
                log.warning("cannot read image pull record %s: %s", path.name, error)


def _file(directory: Path, name: str) -> Path:
    return directory / f"sha256-{hashlib.sha256(name.encode()).hexdigest()}"


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(path, msgspec.json.encode(content), mode=0o600)
