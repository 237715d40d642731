"""PodCertificateRequest: a certificate that a kubelet requests for a pod.

The spec is immutable; the status goes once from empty to issued, denied or failed, and changes only by users with
permission for the signer. The counterparts are `pkg/registry/certificates/podcertificaterequest` and
`pkg/apis/certificates/validation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api import names
from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.semantics.conditions import is_true
from sampan.api.types.certificates_v1beta1 import (
    PodCertificateRequest,
    PodCertificateRequestSpec,
    PodCertificateRequestStatus,
)
from sampan.api.values.times import parse_time
from sampan.apiserver.registry.behavior import GenericStatusStrategy, GenericStrategy, ResourceBehavior
from sampan.apiserver.registry.certificate_rules import (
    is_kubernetes_signer,
    validate_signer_name,
)
from sampan.apiserver.registry.podspec.volumes.projected import validate_user_annotations
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import FieldErrors, validate_conditions, validate_immutable
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import NAME
from sampan.machinery.pki.pem import CERTIFICATE, PemBlock, read_blocks

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateSigningRequest

ISSUED, DENIED, FAILED = _TERMINAL = ("Issued", "Denied", "Failed")
_MAX_UID_BYTES, _MAX_KEY_BYTES, _MAX_CHAIN_BYTES = 128, 10 << 10, 100 << 10
MIN_EXPIRATION_S, MAX_EXPIRATION_S, MAX_KUBERNETES_EXPIRATION_S = 3600, 91 * 24 * 3600, 24 * 3600
_DEFAULT_EXPIRATION_S = 24 * 3600
_MAX_CLOCK_SKEW_S, _MIN_REFRESH_MARGIN_S, _MIN_LIFETIME_S = 300, 600, 3600
_RSA_KEY_BITS, _CURVES = (3072, 4096), ("secp256r1", "secp384r1", "secp521r1")
_PKCS10, _PKIX, _PROOF = "spec.stubPKCS10Request", "spec.pkixPublicKey", "spec.proofOfPossession"
_CHAIN, _CONDITIONS = "status.certificateChain", "status.conditions"
_BAD_PROOF = "could not verify proof-of-possession signature"


def _spec_field(field: str, request: PodCertificateRequest, now: float) -> str:
    value: str = getattr(request.spec, field)
    return value


def _state(request: PodCertificateRequest, now: float) -> str:
    return next((condition.type for condition in request.status.conditions if condition.type in _TERMINAL), "Pending")


class PodCertificateRequestStrategy(GenericStrategy):
    columns = (
        NAME,
        *(
            Column(f"{field[:1].upper()}{field[1:]}", partial(_spec_field, field), field=f"spec.{field}")
            for field in ("podName", "serviceAccountName", "nodeName", "signerName")
        ),
        Column("State", _state, description="Is the request Pending, Issued, Denied, or Failed?"),
        Column(
            "UnverifiedUserAnnotations",
            lambda request, now: cells.pairs(request.spec.unverifiedUserAnnotations),
            field="spec.unverifiedUserAnnotations",
        ),
    )

    def default(self, obj: PodCertificateRequest) -> None:
        if obj.spec.maxExpirationSeconds is None:
            obj.spec.maxExpirationSeconds = _DEFAULT_EXPIRATION_S

    def validate_create(self, ctx: Context, obj: PodCertificateRequest) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec)

    def validate_update(
        self, ctx: Context, obj: PodCertificateRequest, old: PodCertificateRequest
    ) -> Iterable[FieldError]:
        return validate_immutable(obj.spec, old.spec, "spec")


class PodCertificateRequestStatusStrategy(GenericStatusStrategy):
    async def validate_permissions(
        self, ctx: Context, obj: PodCertificateRequest, old: PodCertificateRequest
    ) -> Sequence[FieldError]:
        """Return an error if the status changes, is valid, and the user has no permission for the signer."""
        security, signer = ctx.services.security, old.spec.signerName
        if security is None or obj.status == old.status or any(self.validate_update(ctx, obj, old)):
            return ()
        if await security.authorizer.is_allowed_for_signer(ctx.user, "sign", signer):
            return ()
        text = f'User "{ctx.user.name}" is not permitted to "sign" for signer "{signer}"'
        return (FieldError.forbidden("spec.signerName", text),)

    def validate_update(
        self, ctx: Context, obj: PodCertificateRequest, old: PodCertificateRequest
    ) -> Iterable[FieldError]:
        errors = [*_validate_conditions(obj.status), *validate_conditions(obj.status.conditions, _CONDITIONS)]
        return errors or _validate_transition(obj, old, parse_time(ctx.now))


# -- spec --------------------------------------------------------------------------------------------------------------


def _validate_spec(spec: PodCertificateRequestSpec) -> FieldErrors:
    yield from validate_signer_name(spec.signerName, "spec.signerName")
    yield from validate_user_annotations(spec.unverifiedUserAnnotations, "spec.unverifiedUserAnnotations")
    for owner in ("pod", "serviceAccount", "node"):
        name, uid = getattr(spec, f"{owner}Name"), getattr(spec, f"{owner}UID")
        for text in names.dns1123_subdomain(name):
            yield FieldError.invalid(f"spec.{owner}Name", name, text)
        if not uid:
            yield FieldError.invalid(f"spec.{owner}UID", uid, "must not be empty")
        if names.size(uid) > _MAX_UID_BYTES:
            yield FieldError.too_long(f"spec.{owner}UID", _MAX_UID_BYTES)
    path, expiration_s = "spec.maxExpirationSeconds", spec.maxExpirationSeconds
    if expiration_s is None:
        yield FieldError.required(path, "must be set")
        return
    max_s = MAX_KUBERNETES_EXPIRATION_S if is_kubernetes_signer(spec.signerName) else MAX_EXPIRATION_S
    if not MIN_EXPIRATION_S <= expiration_s <= max_s:
        yield FieldError.invalid(path, expiration_s, f"must be in the range [{MIN_EXPIRATION_S}, {max_s}]")
    yield from _validate_key(spec)


def _validate_key(spec: PodCertificateRequestSpec) -> FieldErrors:
    request, key, proof = spec.stubPKCS10Request or b"", spec.pkixPublicKey or b"", spec.proofOfPossession or b""
    if request and not key and not proof:
        yield from _validate_request(request)
    elif not request and key and proof:
        yield from _validate_public_key(key, proof, spec.podUID.encode())
    else:
        text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        yield FieldError.invalid("spec", OMITTED, text)


def _validate_request(content: bytes) -> FieldErrors:
    if len(content) > _MAX_KEY_BYTES:
        yield FieldError.too_long(_PKCS10, _MAX_KEY_BYTES)
        return
    request = _parse_request(content)
    if request is None:
        yield FieldError.invalid(_PKCS10, OMITTED, "must be a valid PKCS#10 CSR")
        return
    errors = list(_validate_key_type(_key_of(request), _PKCS10, OMITTED, "P256, P384, or P521"))
    yield from errors
    if not errors and not request.is_signature_valid:
        yield FieldError.invalid(_PKCS10, OMITTED, "invalid signature")


def _parse_request(content: bytes) -> CertificateSigningRequest | None:
    from cryptography import x509

    try:
        return x509.load_der_x509_csr(content)
    except ValueError:
        return None


def _key_of(source: CertificateSigningRequest | Certificate) -> Any | None:
    """Return a public key, None if its type is not supported."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return source.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _validate_key_type(key: Any | None, path: str, value: Any, curves: str) -> FieldErrors:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_KEY_BITS:
            yield FieldError.invalid(
                path, f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096"
            )
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in _CURVES:
            name = f"curve P-{key.curve.key_size}"
            yield FieldError.invalid(path, name, f"elliptic public keys must use curve {curves}")
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        yield FieldError.invalid(path, value, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")


def _validate_public_key(content: bytes, proof: bytes, signed: bytes) -> FieldErrors:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    for path, value in ((_PKIX, content), (_PROOF, proof)):
        if len(value) > _MAX_KEY_BYTES:
            yield FieldError.too_long(path, _MAX_KEY_BYTES)
            return
    try:
        key = load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        yield FieldError.invalid(_PKIX, content, "must be a valid PKIX-serialized public key")
        return
    errors = list(_validate_key_type(key, _PKIX, content, "P256 or P384"))
    yield from errors
    if not errors and not _is_signed(key, proof, signed):
        yield FieldError.invalid(_PROOF, OMITTED, _BAD_PROOF)


def _is_signed(key: Any, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if isinstance(key, rsa.RSAPublicKey):
            pss = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=padding.PSS.AUTO)
            key.verify(signature, content, pss, SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, content, ec.ECDSA(SHA256()))
        else:
            key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


# -- status ------------------------------------------------------------------------------------------------------------


def _validate_conditions(status: PodCertificateRequestStatus) -> FieldErrors:
    count = 0
    for index, condition in enumerate(status.conditions):
        path = f"{_CONDITIONS}.[{index}]"
        if condition.type not in _TERMINAL:
            yield FieldError.not_supported(f"{path}.type", condition.type, _TERMINAL)
            continue
        count += 1
        if count > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            yield FieldError.invalid(f"{path}.type", condition.type, text)
        if condition.status != "True":
            yield FieldError.not_supported(f"{path}.status", condition.status, ("True",))


def _validate_transition(obj: PodCertificateRequest, old: PodCertificateRequest, now: float) -> FieldErrors:
    status = obj.status
    if any(is_true(old.status.conditions, name) for name in _TERMINAL):
        if status != old.status:
            text = "immutable after PodCertificateRequest is issued, denied, or failed"
            yield FieldError.invalid("status", OMITTED, text)
    elif is_true(status.conditions, DENIED) or is_true(status.conditions, FAILED):
        if status != PodCertificateRequestStatus(conditions=status.conditions):
            text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            yield FieldError.invalid("status", OMITTED, text)
    elif is_true(status.conditions, ISSUED):
        yield from _validate_chain(obj, now)
    elif status != old.status:
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        yield FieldError.invalid("status", OMITTED, text)


def _validate_chain(obj: PodCertificateRequest, now: float) -> FieldErrors:
    """Yield the first error of the issued certificates and the times in the status."""
    chain = obj.status.certificateChain
    if names.size(chain) > _MAX_CHAIN_BYTES:
        yield FieldError.too_long(_CHAIN, _MAX_CHAIN_BYTES)
        return
    blocks = list(read_blocks(chain.encode()))
    text, leaf = "", None
    if not blocks:
        text = "issued certificate chain must contain at least one certificate"
    elif blocks[0].type != CERTIFICATE:
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    elif (leaf := _load(blocks[0])) is None:
        text = "leaf certificate does not parse as valid X.509"
    elif not _is_for_requested_key(leaf, obj.spec):
        text = "leaf certificate was not issued to the requested public key"
    if text or leaf is None:
        yield FieldError.invalid(_CHAIN, chain, text)
        return
    errors = list(_validate_times(obj, leaf, now))
    yield from errors
    if errors:
        return
    for block in blocks[1:]:
        if block.type != CERTIFICATE:
            text = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
        elif _load(block) is None:
            text = "intermediate certificate does not parse as valid X.509"
        if text:
            yield FieldError.invalid(_CHAIN, chain, text)
            return


def _load(block: PemBlock) -> Certificate | None:
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(block.content)
    except ValueError:
        return None


def _is_for_requested_key(leaf: Certificate, spec: PodCertificateRequestSpec) -> bool:
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if spec.stubPKCS10Request:
        request = _parse_request(spec.stubPKCS10Request)
        requested_key = _key_of(request) if request is not None else None
    else:
        requested_key = load_der_public_key(spec.pkixPublicKey or b"")
    return requested_key is not None and bool(_key_of(leaf) == requested_key)


def _validate_times(obj: PodCertificateRequest, leaf: Certificate, now: float) -> FieldErrors:
    status = obj.status
    present = "must be present and consistent with the issued certificate"
    missing = [
        FieldError.required(f"status.{name}", text)
        for name, text in (
            ("notBefore", present),
            ("notAfter", present),
            ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
        )
        if getattr(status, name) is None
    ]
    yield from missing
    if missing:
        return
    not_before, not_after, refresh = status.notBefore or "", status.notAfter or "", status.beginRefreshAt or ""
    start, end = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
    lifetime_s, max_s = end - start, obj.spec.maxExpirationSeconds or 0
    rules = (
        (
            parse_time(not_before) != start,
            ("status.notBefore", not_before, "must be set to the NotBefore time encoded in the leaf certificate"),
        ),
        (
            abs(start - now) >= _MAX_CLOCK_SKEW_S,
            ("status.notBefore", not_before, "must be set to within 5 minutes of kube-apiserver's current time"),
        ),
        (
            parse_time(not_after) != end,
            ("status.notAfter", not_after, "must be set to the NotAfter time encoded in the leaf certificate"),
        ),
        (
            lifetime_s < _MIN_LIFETIME_S,
            (_CHAIN, int(lifetime_s * 10**9), "leaf certificate lifetime must be >= 1 hour"),
        ),
        (
            lifetime_s > max_s,
            (
                _CHAIN,
                int(lifetime_s * 10**9),
                f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max_s})",
            ),
        ),
        (
            parse_time(refresh) < start + _MIN_REFRESH_MARGIN_S,
            ("status.beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore"),
        ),
        (
            parse_time(refresh) > end - _MIN_REFRESH_MARGIN_S,
            ("status.beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter"),
        ),
    )
    error = next((error for is_broken, error in rules if is_broken), None)
    if error is not None:
        yield FieldError.invalid(*error)


_strategy = PodCertificateRequestStrategy(has_status=True, allow_unconditional_update=False)
BEHAVIOR = ResourceBehavior(
    strategy=_strategy, views={"status": PodCertificateRequestStatusStrategy(_strategy, keeps_metadata=True)}
)
