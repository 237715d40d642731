"""ServiceAccount: the identity of a pod, and its subresource token, which issues tokens bound to an audience, a time
and optionally an object."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.field_errors import FieldError
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestStatus
from sampan.api.types.core_v1 import Node, ObjectReference, Pod, ServiceAccount
from sampan.api.values import times
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.request import bodies, options
from sampan.apiserver.response.responses import ValueResponse
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.machinery.pki.token_signer import TokenSigner


_KIND = GroupVersionKind(group="authentication.k8s.io", version="v1", kind="TokenRequest")
_DEFAULT_S = 3600
_MIN_EXPIRATION_S, _MAX_EXPIRATION_S = 600, 2**32
_PROJECTED_S = 3607
"""The lifetime that admission requests for the tokens of pods.

Such a token is extended to a year, for clients that do not reload it, and causes warnings after this time.
"""
_EXTENDED_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class _BoundObject:
    """The object that a token is bound to: its name in the claims, the object, and the node of a pod."""

    kind: str
    obj: Any
    node: Node | None = None


async def create_token(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    signer = endpoints.token_signer
    if signer is None:
        raise errors.generic(404)
    opts = options.write_options("CreateOptions", call.query)
    request: TokenRequest = await endpoints.read_object(call, endpoints.registry.codec(_KIND), opts.field_validation)
    bodies.match_namespace(call, request)
    if request.spec.expirationSeconds is None:
        request.spec.expirationSeconds = _DEFAULT_S
    ctx = endpoints.context(call, opts.dry_run)
    await endpoints.admission.admit(endpoints.attributes("CREATE", call, request, None, ctx))
    account = await _account(endpoints, call, request)
    _complete(request, account, signer, ctx.now)
    _check(request)
    await endpoints.admission.validate(endpoints.attributes("CREATE", call, request, None, ctx))
    bound = (
        await _resolve_bound_object(endpoints, call, request.spec.boundObjectRef)
        if request.spec.boundObjectRef
        else None
    )
    _shorten(request, signer, call)
    now = endpoints.registry.clock.now()
    claims = _claims(request, account, bound, signer, now)
    ends = times.format_time(now + request.spec.expirationSeconds)
    request.status = TokenRequestStatus(token=signer.sign(claims), expirationTimestamp=ends)
    return ValueResponse(json.to_value(request), 201)


async def _account(endpoints: ApiEndpoints, call: Call, request: TokenRequest) -> ServiceAccount:
    meta = request.metadata
    for field, value, expected in (("name", meta.name, call.name), ("namespace", meta.namespace, call.namespace)):
        if value and value != expected:
            text = f"must match the service account {field} if specified"
            raise _invalid(call.name, FieldError.invalid(f"metadata.{field}", value, text))
    account: ServiceAccount = await _read(endpoints, "ServiceAccount", call.namespace, call.name)
    if meta.uid and meta.uid != account.metadata.uid:
        why = f"the UID in the token request ({meta.uid}) does not match the UID of the service account"
        raise errors.conflict(_KIND.kind, call.name, f"{why} ({account.metadata.uid})", group=_KIND.group)
    return account


async def _read(endpoints: ApiEndpoints, kind: str, namespace: str, name: str) -> Any:
    """Return the current object, read-only."""
    store = endpoints.registry.open_store_of("", "v1", kind)
    return (await store.get(namespace, name)).object(store.codec.decode)


def _complete(request: TokenRequest, account: ServiceAccount, signer: TokenSigner, now: str) -> None:
    meta = request.metadata
    request.spec.audiences = request.spec.audiences or list(signer.audiences)
    meta.name, meta.namespace = account.metadata.name, account.metadata.namespace
    meta.uid, meta.creationTimestamp = account.metadata.uid, now


def _check(request: TokenRequest) -> None:
    seconds, audiences = request.spec.expirationSeconds or 0, request.spec.audiences or ()
    if len(audiences) > limits.TOKEN_AUDIENCES:
        raise _invalid("", FieldError.too_many("spec.audiences", len(audiences), limits.TOKEN_AUDIENCES))
    if sum(map(len, audiences)) > limits.TOKEN_AUDIENCE_CHARACTERS:
        raise _invalid("", FieldError.too_long("spec.audiences", limits.TOKEN_AUDIENCE_CHARACTERS, "character"))
    if seconds < _MIN_EXPIRATION_S:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_EXPIRATION_S:
        text = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    raise _invalid("", FieldError.invalid("spec.expirationSeconds", seconds, text))


def _shorten(request: TokenRequest, signer: TokenSigner, call: Call) -> None:
    requested_s, maximum = request.spec.expirationSeconds or 0, int(signer.longest_s)
    if maximum and requested_s > maximum:
        call.warn(f"requested expiration of {requested_s} seconds shortened to {maximum} seconds")
        request.spec.expirationSeconds = maximum


def _invalid(name: str, error: FieldError) -> errors.ApiError:
    return errors.invalid(_KIND.kind, name, [error], group=_KIND.group)


async def _resolve_bound_object(endpoints: ApiEndpoints, call: Call, ref: BoundObjectReference) -> _BoundObject:
    is_parsable = ref.apiVersion.count("/") < 2
    group, _, version = ref.apiVersion.rpartition("/") if is_parsable else ("", "", "")
    if group or ref.kind not in ("Pod", "Node", "Secret"):
        raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={ref.kind}")
    if not ref.name:
        raise errors.bad_request("Name parameter required.")
    obj = await _read(endpoints, ref.kind, "" if ref.kind == "Node" else call.namespace, ref.name)
    node = await _node_of(endpoints, obj, call.name) if ref.kind == "Pod" else None
    if ref.uid and ref.uid != obj.metadata.uid:
        why = f"the UID in the bound object reference ({ref.uid}) does not match the UID in record"
        raise errors.conflict(ref.kind, ref.name, f"{why}. The object might have been deleted and then recreated")
    return _BoundObject(ref.kind.lower(), obj, node)


async def _node_of(endpoints: ApiEndpoints, pod: Pod, account: str) -> Node | None:
    if pod.spec.serviceAccountName != account:
        why = "to pod running with different serviceaccount name."
        raise errors.bad_request(f'cannot bind token for serviceaccount "{account}" {why}')
    if not pod.spec.nodeName:
        return None
    try:
        node: Node = await _read(endpoints, "Node", "", pod.spec.nodeName)
    except errors.NotFound:
        node = Node()
        node.metadata.name = pod.spec.nodeName
    return node


def _claims(
    request: TokenRequest, account: ServiceAccount, bound: _BoundObject | None, signer: TokenSigner, now: float
) -> dict[str, Any]:
    meta, spec, start = account.metadata, request.spec, int(now)
    lasts_s = spec.expirationSeconds or 0
    own: dict[str, Any] = {"namespace": meta.namespace, "serviceaccount": _ref(account)}
    if bound is not None:
        own[bound.kind] = _ref(bound.obj)
        if bound.node is not None:
            own["node"] = _ref(bound.node)
        is_projected = signer.extends and bound.kind == "pod" and lasts_s == _PROJECTED_S
        if is_projected and set(spec.audiences or ()) <= set(signer.audiences):
            own["warnafter"], lasts_s = start + lasts_s, _EXTENDED_S
    return {
        "aud": spec.audiences,
        "exp": start + lasts_s,
        "iat": start,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": own,
        "nbf": start,
        "sub": f"system:serviceaccount:{meta.namespace}:{meta.name}",
    }


def _ref(obj: Any) -> dict[str, str]:
    reference = {"name": obj.metadata.name, "uid": obj.metadata.uid}
    return {key: text for key, text in reference.items() if text}


_MOUNTABLE_ONLY = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    return_deleted_object = True
    columns = (NAME, AGE)

    def prepare_for_create(self, ctx: Context, obj: ServiceAccount) -> None:
        obj.secrets = [ObjectReference(name=secret.name) for secret in obj.secrets]

    def prepare_for_update(self, ctx: Context, obj: ServiceAccount, old: ServiceAccount) -> None:
        self.prepare_for_create(ctx, obj)

    def warnings(self, ctx: Context, obj: ServiceAccount, old: ServiceAccount | None) -> Iterable[str]:
        is_old = old is not None and _MOUNTABLE_ONLY in old.metadata.annotations
        if _MOUNTABLE_ONLY in obj.metadata.annotations and not is_old:
            instead = "prefer separate namespaces to isolate access to mounted secrets"
            yield f"metadata.annotations[{_MOUNTABLE_ONLY}]: deprecated in v1.32+; {instead}"


BEHAVIOR = ResourceBehavior(strategy=ServiceAccountStrategy())
HANDLERS: Handlers = {"token": create_token}
