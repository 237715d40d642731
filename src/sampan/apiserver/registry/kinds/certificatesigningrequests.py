"""CertificateSigningRequest: who requests a certificate, whether it is approved, and the issued certificate.

Updates of the object change only its metadata; `approval` approves or denies, `status` sets the rest.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import difference, encode_error_value
from sampan.api.types.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from sampan.api.values import ages
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.certificate_rules import find_certificate_error, find_request_error, validate_signer_name
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_one_of, validate_unique
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.apply import ExcludedFieldsFilter

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_OLD_SIGNER = "kubernetes.io/legacy-unknown"
_CONDITIONS, _CERTIFICATE = "status.conditions", "status.certificate"
_MIN_EXPIRATION_S = 600
_USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)

Conditions = Sequence[CertificateSigningRequestCondition]


def _condition(request: CertificateSigningRequest, now: float) -> str:
    types = {condition.type for condition in request.status.conditions}
    words = [next((kind for kind in (DENIED, APPROVED) if kind in types), "Pending")]
    if FAILED in types:
        words.append(FAILED)
    if request.status.certificate:
        words.append("Issued")
    return ",".join(words)


def _duration(request: CertificateSigningRequest, now: float) -> str:
    seconds = request.spec.expirationSeconds
    return ages.format_age(seconds) if seconds is not None else cells.NONE


_COLUMNS = (
    NAME,
    AGE,
    Column("SignerName", lambda request, now: request.spec.signerName or cells.NONE, field="spec.signerName"),
    Column("Requestor", lambda request, now: request.spec.username, field="spec.request"),
    Column("RequestedDuration", _duration, field="spec.expirationSeconds"),
    Column("Condition", _condition, field="status.conditions"),
)


class CertificateSigningRequestStrategy(Strategy):
    columns = _COLUMNS
    reset_fields = ExcludedFieldsFilter("spec", "status")

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name, prefix=is_prefix)

    def prepare_for_create(self, ctx: Context, obj: CertificateSigningRequest) -> None:
        """Set the requesting user in the spec, whatever the client sent."""
        spec, user = obj.spec, ctx.user
        spec.username, spec.uid, spec.groups = user.name, user.uid, list(user.groups)
        spec.extra = {key: list(values) for key, values in user.extra.items()}
        obj.status = CertificateSigningRequestStatus()

    def validate_create(self, ctx: Context, obj: CertificateSigningRequest) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, None)

    def prepare_for_update(self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest) -> None:
        obj.spec, obj.status = old.spec, old.status

    def validate_update(
        self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> Iterable[FieldError]:
        return _validate_request_update(obj, old)


class ApprovalStrategy(StatusStrategy):
    reset_fields = ExcludedFieldsFilter("spec", "status.certificate")

    def prepare_for_update(self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest) -> None:
        _put_times(obj.status.conditions, old.status.conditions, ctx.now)
        obj.spec = old.spec
        obj.status.certificate = old.status.certificate

    def validate_update(
        self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> Iterable[FieldError]:
        return _validate_request_update(obj, old, may_approve=True)


class IssueStrategy(StatusStrategy):
    reset_fields = ExcludedFieldsFilter("spec", "status.conditions")

    def prepare_for_update(self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest) -> None:
        super().prepare_for_update(ctx, obj, old)
        for kind in (APPROVED, DENIED):
            _restore_conditions(obj.status.conditions, old.status.conditions, kind)
        _put_times(obj.status.conditions, old.status.conditions, ctx.now)

    def validate_update(
        self, ctx: Context, obj: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> Iterable[FieldError]:
        return _validate_request_update(obj, old, may_issue=True)


def _restore_conditions(conditions: list[CertificateSigningRequestCondition], old: Conditions, kind: str) -> None:
    """Restore the conditions of the type `kind` from the old object, if the number of these conditions is unchanged."""
    places = [index for index, condition in enumerate(conditions) if condition.type == kind]
    before = _select_conditions(old, kind)
    if len(places) == len(before):
        for index, condition in zip(places, before, strict=True):
            conditions[index] = condition


def _put_times(conditions: Conditions, old: Conditions, now: str) -> None:
    timed = {(c.type, c.status): c for c in reversed(old) if c.lastTransitionTime}
    for condition in conditions:
        before = timed.get((condition.type, condition.status))
        if condition.lastUpdateTime is None:
            condition.lastUpdateTime = now
        if condition.lastTransitionTime is None:
            condition.lastTransitionTime = before.lastTransitionTime if before is not None else now


# -- validation --------------------------------------------------------------------------------------------------------


def _validate_spec(spec: CertificateSigningRequestSpec, old: CertificateSigningRequestSpec | None) -> FieldErrors:
    """Yield the errors of the spec; some kinds of invalid values are tolerated if the old object has them."""
    if message := find_request_error(spec.request or b""):
        yield FieldError.invalid("spec.request", encode_error_value(spec.request), message)
    if not spec.usages:
        yield FieldError.required("spec.usages")
    if old is None or all(usage in _USAGES for usage in old.usages):
        for index, usage in enumerate(spec.usages):
            if usage not in _USAGES:
                yield FieldError.not_supported(f"spec.usages[{index}]", usage, _USAGES)
    if old is None or len(set(old.usages)) == len(old.usages):
        usages: set[str] = set()
        for index, usage in enumerate(spec.usages):
            yield from validate_unique(usage, usages, f"spec.usages[{index}]")
    if spec.signerName == _OLD_SIGNER and (old is None or old.signerName != _OLD_SIGNER):
        text = "the legacy signerName is not allowed via this API version"
        yield FieldError.invalid("spec.signerName", spec.signerName, text)
    else:
        yield from validate_signer_name(spec.signerName, "spec.signerName")
    if spec.expirationSeconds is not None and spec.expirationSeconds < _MIN_EXPIRATION_S:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield FieldError.invalid("spec.expirationSeconds", spec.expirationSeconds, text)


def _validate_request_update(
    request: CertificateSigningRequest,
    old: CertificateSigningRequest,
    *,
    may_approve: bool = False,
    may_issue: bool = False,
) -> FieldErrors:
    new, before = request.status, old.status
    yield from _validate_spec(request.spec, old.spec)
    yield from _validate_condition(new.conditions, before.conditions)
    is_new = new.certificate != before.certificate
    had_bad = bool(before.certificate and find_certificate_error(before.certificate))
    if is_new and new.certificate and not had_bad and (message := find_certificate_error(new.certificate)):
        yield FieldError.invalid(_CERTIFICATE, "<certificate data>", message)
    for kind in (APPROVED, DENIED, FAILED):
        if len(_select_conditions(new.conditions, kind)) < len(_select_conditions(before.conditions, kind)):
            yield FieldError.forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')
    if not may_approve:
        yield from _validate_approval(new.conditions, before.conditions)
    if is_new and not may_issue:
        yield FieldError.forbidden(_CERTIFICATE, "updates may not set certificate content")
    elif is_new and before.certificate:
        yield FieldError.forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def _validate_approval(conditions: Conditions, old: Conditions) -> FieldErrors:
    for kind in (APPROVED, DENIED):
        new, before = _select_conditions(conditions, kind), _select_conditions(old, kind)
        if len(new) > len(before):
            yield FieldError.forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
        elif len(new) == len(before) and new != before:
            text = f'updates may not modify a condition of type "{kind}"\n{difference(before, new)}'
            yield FieldError.forbidden(_CONDITIONS, text)


def _validate_condition(conditions: Conditions, old: Conditions) -> FieldErrors:
    before = Counter(condition.type for condition in old)
    had_twice, had_nameless = any(n > 1 for n in before.values()), "" in before
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"{_CONDITIONS}[{index}]"
        if not condition.type and not had_nameless:
            yield FieldError.required(f"{path}.type")
        is_decision = condition.type in (APPROVED, DENIED, FAILED)
        yield from validate_one_of(
            condition.status, ("True",) if is_decision else ("False", "True", "Unknown"), f"{path}.status"
        )
        if condition.type in types and not had_twice:
            yield FieldError.duplicate(f"{path}.type", condition.type)
        types.add(condition.type)


def _select_conditions(conditions: Conditions, kind: str) -> list[CertificateSigningRequestCondition]:
    return [condition for condition in conditions if condition.type == kind]


_strategy = CertificateSigningRequestStrategy()
BEHAVIOR = ResourceBehavior(
    strategy=_strategy, views={"approval": ApprovalStrategy(_strategy), "status": IssueStrategy(_strategy)}
)
