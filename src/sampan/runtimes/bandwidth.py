"""The bandwidth limits of a pod, from its annotations (`pkg/util/bandwidth`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sampan.api.quantity import parse
from sampan.runtimes.contract import RuntimeFailure

INGRESS, EGRESS = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"
_SMALLEST, _LARGEST = 1_000, 1_000_000_000_000_000
_FAILED = "FailedCreatePodSandBox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    ingress_bits_per_s: int = 0
    """The limit for traffic to the pod; 0 for none."""
    egress_bits_per_s: int = 0


UNLIMITED = Bandwidth()


def bandwidth_of(annotations: Mapping[str, str]) -> Bandwidth:
    """Return the limits of a pod with these annotations. Raise RuntimeFailure for an invalid value."""
    if INGRESS not in annotations and EGRESS not in annotations:
        return UNLIMITED
    return Bandwidth(
        ingress_bits_per_s=_bits_per_s(annotations, INGRESS), egress_bits_per_s=_bits_per_s(annotations, EGRESS)
    )


def _bits_per_s(annotations: Mapping[str, str], name: str) -> int:
    if name not in annotations:
        return 0
    try:
        value = int(parse(annotations[name]).value())
    except ValueError as error:
        raise RuntimeFailure(_FAILED, f"annotation {name}: {error}") from None
    if value < _SMALLEST:
        raise RuntimeFailure(_FAILED, f"annotation {name}: resource is unreasonably small (< 1kbit)")
    if value > _LARGEST:
        raise RuntimeFailure(_FAILED, f"annotation {name}: resource is unreasonably large (> 1Pbit)")
    return value
