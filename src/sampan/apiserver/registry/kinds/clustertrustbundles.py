"""ClusterTrustBundle: CA certificates that all users in the cluster can read, optionally of one signer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.certificate_rules import (
    find_bundle_name_errors,
    find_trust_anchor_errors,
    validate_signer_name,
)
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_immutable
from sampan.apiserver.tables.columns import NAME

_MAX_BUNDLE_BYTES = 1 << 20
_BUNDLE = "spec.trustBundle"


class ClusterTrustBundleStrategy(Strategy):
    allow_unconditional_update = False
    columns = (
        NAME,
        Column(
            "SignerName", lambda trust_bundle, now: trust_bundle.spec.signerName or "<none>", field="spec.signerName"
        ),
    )

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        """Accept any path segment; `validate_create` checks the rest, which depends on the signer."""
        return names.path_segment(name, prefix=is_prefix)

    def validate_create(self, ctx: Context, obj: Any) -> Iterable[FieldError]:
        yield from _validate_name_and_signer(obj)
        yield from _validate_trust_bundle(obj.spec.trustBundle)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        """Yield the errors of an update; an unchanged bundle is not validated again."""
        yield from _validate_name_and_signer(obj)
        if obj.spec.trustBundle != old.spec.trustBundle:
            yield from _validate_trust_bundle(obj.spec.trustBundle)
        yield from validate_immutable(obj.spec.signerName, old.spec.signerName, "spec.signerName")


def _validate_name_and_signer(obj: Any) -> FieldErrors:
    signer, meta = obj.spec.signerName, obj.metadata
    if meta.generateName:
        for text in find_bundle_name_errors(meta.generateName, signer, is_prefix=True):
            yield FieldError.invalid("metadata.generateName", meta.generateName, text)
    if meta.name and not names.path_segment(meta.name):
        for text in find_bundle_name_errors(meta.name, signer):
            yield FieldError.invalid("metadata.name", meta.name, text)
    if signer:
        yield from validate_signer_name(signer, "spec.signerName")


def _validate_trust_bundle(bundle: str) -> Iterator[FieldError]:
    pem = bundle.encode("utf-8", "surrogatepass")
    if len(pem) > _MAX_BUNDLE_BYTES:
        yield FieldError.too_long(_BUNDLE, _MAX_BUNDLE_BYTES)
        return
    yield from (FieldError.invalid(_BUNDLE, "<value omitted>", text) for text in find_trust_anchor_errors(pem))


BEHAVIOR = ResourceBehavior(strategy=ClusterTrustBundleStrategy())
