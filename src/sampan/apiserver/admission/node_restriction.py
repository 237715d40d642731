"""NodeRestriction: a kubelet may only write its own node and related objects, create mirror pods without references to
other API objects, and request service account tokens for the audiences of its pods' volumes or those that it is
authorized for. The counterpart is `plugin/pkg/admission/noderestriction`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_references import CONFIG_MIRROR, is_mirror_pod, referenced_resource
from sampan.api.types.authentication_v1 import TokenRequest
from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from sampan.api.types.storage_v1 import CSIDriver
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.lookup import is_allowed
from sampan.apiserver.authz.authorizer import Attributes as AuthzAttributes
from sampan.apiserver.registry.certificate_rules import parse_request
from sampan.apiserver.request.call import UserInfo
from sampan.machinery import errors

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_KUBELET_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        *("beta.kubernetes.io/os", "beta.kubernetes.io/arch"),
    }
)


def forbidden_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    changed = {key for key, _ in old.items() ^ new.items()}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _is_in(domain, _RESTRICTED):
        return True
    is_kubernetes = any(_is_in(domain, suffix) for suffix in _KUBERNETES)
    return (
        is_kubernetes and key not in _KUBELET_LABELS and not any(_is_in(domain, own) for own in _KUBELET_LABEL_DOMAINS)
    )


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


NODES = "system:nodes"
_PREFIX = "system:node:"
_LEASES = "kube-node-lease"
_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_SIGNER_VERB = "request-serviceaccounts-podcertificate-signer"
_CLAIM_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")


def node_of(user: UserInfo) -> str | None:
    """Return the node of a kubelet's user; None for any other user."""
    if NODES not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


class NodeRestriction:
    name = "NodeRestriction"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return (resource.group, resource.plural) in _RULES and operation in ("CREATE", "UPDATE", "DELETE")

    async def admit(self, attributes: AdmissionAttributes) -> None:
        node = node_of(attributes.user)
        if node is None:
            return
        if not node:
            who = gotext.quote(attributes.user.name)
            raise attributes.forbidden(f"could not determine node from user {who}")
        await _RULES[attributes.resource.group, attributes.resource.plural](attributes, node)


def _name(attributes: AdmissionAttributes) -> str:
    name: str = attributes.name or (attributes.old.metadata.name if attributes.old is not None else "")
    return name


# -- pods ------------------------------------------------------------------------------------------------------------


async def _check_pods(attributes: AdmissionAttributes, node: str) -> None:
    match attributes.subresource:
        case "":
            await _check_pod(attributes, node)
        case "status":
            _check_pod_status(attributes, node)
        case "eviction":
            await _check_eviction(attributes, node)
        case other:
            text = f"unexpected pod subresource {gotext.quote(other)}, only 'status' and 'eviction' are allowed"
            raise attributes.forbidden(text)


async def _check_pod(attributes: AdmissionAttributes, node: str) -> None:
    own = gotext.quote(node)
    if attributes.operation == "CREATE":
        await _check_new_pod(attributes, attributes.obj, node)
    elif attributes.operation == "DELETE":
        if attributes.old.spec.nodeName != node:
            raise attributes.forbidden(f"node {own} can only delete pods with spec.nodeName set to itself")
    else:
        operation = gotext.quote(attributes.operation)
        raise attributes.forbidden(
            f"unexpected operation {operation}, node {own} can only create and delete mirror pods"
        )


async def _check_new_pod(attributes: AdmissionAttributes, pod: Pod, node: str) -> None:
    if obstacle := find_mirror_pod_error(pod, node):
        raise attributes.forbidden(obstacle)
    node_object: Node | None = await lookup.find(attributes.registry.open_store_of("", "v1", "Node"), "", node)
    if node_object is None:
        raise errors.not_found("nodes", node)
    owner = pod.metadata.ownerReferences[0]
    if owner.uid != node_object.metadata.uid:
        text = f"node {node} UID mismatch: expected {owner.uid} got {node_object.metadata.uid}"
        raise attributes.forbidden(text)
    if kind := referenced_resource(pod.spec):
        raise attributes.forbidden(f"node {gotext.quote(node)} can not create pods that reference {kind}")


def _check_pod_status(attributes: AdmissionAttributes, node: str) -> None:
    own = gotext.quote(node)
    if attributes.operation != "UPDATE":
        raise attributes.forbidden(f"unexpected operation {gotext.quote(attributes.operation)}")
    old: Pod = attributes.old
    new: Pod = attributes.obj
    if old.spec.nodeName != node:
        raise attributes.forbidden(f"node {own} can only update pod status for pods with spec.nodeName set to itself")
    if old.metadata.labels != new.metadata.labels:
        raise attributes.forbidden(f"node {own} cannot update labels through pod status")
    if old.status.resourceClaimStatuses != new.status.resourceClaimStatuses:
        raise attributes.forbidden(f"node {own} cannot update resource claim statues")
    if old.status.extendedResourceClaimStatus != new.status.extendedResourceClaimStatus:
        raise attributes.forbidden(f"node {own} cannot update extended resource claim status")
    if old.status.nodeAllocatableResourceClaimStatuses != new.status.nodeAllocatableResourceClaimStatuses:
        raise attributes.forbidden(f"node {own} cannot update node allocatable resource claim statuses")


async def _check_eviction(attributes: AdmissionAttributes, node: str) -> None:
    pod = await _get_pod(attributes, attributes.name)
    if pod.spec.nodeName != node:
        raise attributes.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")


async def _get_pod(attributes: AdmissionAttributes, name: str) -> Pod:
    store = attributes.registry.open_store_of("", "v1", "Pod")
    pod: Pod | None = await lookup.find(store, attributes.namespace, name)
    if pod is None:
        raise errors.not_found("pods", name)
    return pod


# -- the node and its objects ----------------------------------------------------------------------------------------


async def _check_node(attributes: AdmissionAttributes, node: str) -> None:
    own, name = gotext.quote(node), _name(attributes)
    if name != node:
        raise attributes.forbidden(f"node {own} is not allowed to modify node {gotext.quote(name)}")
    if attributes.operation == "CREATE":
        if bad := forbidden_changes({}, attributes.obj.metadata.labels):
            raise attributes.forbidden(f"node {own} is not allowed to set the following labels: {', '.join(bad)}")
    elif attributes.operation == "UPDATE":
        _check_node_update(attributes, attributes.old, attributes.obj, own)


def _check_node_update(attributes: AdmissionAttributes, old: Node, new: Node, own: str) -> None:
    if new.spec.taints != old.spec.taints:
        raise attributes.forbidden(f"node {own} is not allowed to modify taints")
    if new.metadata.ownerReferences != old.metadata.ownerReferences:
        raise attributes.forbidden(f"node {own} is not allowed to modify ownerReferences")
    if bad := forbidden_changes(old.metadata.labels, new.metadata.labels):
        raise attributes.forbidden(f"is not allowed to modify labels: {', '.join(bad)}")


async def _check_lease(attributes: AdmissionAttributes, node: str) -> None:
    if attributes.namespace != _LEASES:
        raise attributes.forbidden(f"can only access leases in the {gotext.quote(_LEASES)} system namespace")
    if _name(attributes) != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


async def _check_csi_node(attributes: AdmissionAttributes, node: str) -> None:
    if _name(attributes) != node:
        raise attributes.forbidden("can only access CSINode with the same name as the requesting node")
    if attributes.subresource != "status":
        return
    if not attributes.services.feature_gates.is_enabled("CSIVolumeHealth"):
        raise attributes.forbidden("CSIVolumeHealth feature gate is disabled")
    if attributes.operation != "UPDATE":
        raise attributes.forbidden(f"unexpected operation {gotext.quote(attributes.operation)}")
    if attributes.old.spec != attributes.obj.spec:
        raise attributes.forbidden(f"node {gotext.quote(node)} is not allowed to modify CSINode spec via status")


async def _check_resource_slice(attributes: AdmissionAttributes, node: str) -> None:
    verbs: dict[Operation, str] = {"CREATE": "create", "DELETE": "delete"}
    verb = verbs.get(attributes.operation)
    obj: Any = attributes.obj if attributes.obj is not None else attributes.old
    if verb is not None and obj.spec.nodeName != node:
        raise attributes.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


# -- claims, tokens, certificates ------------------------------------------------------------------------------------


async def _check_claim(attributes: AdmissionAttributes, node: str) -> None:
    if attributes.subresource != "status":
        raise attributes.forbidden("may only update PVC status")
    if _without_mutable_fields(attributes.old) != _without_mutable_fields(attributes.obj):
        allowed = "status.quantity and status.conditions"
        text = f"node {gotext.quote(node)} is not allowed to update fields other than {allowed}"
        raise attributes.forbidden(text)


def _without_mutable_fields(claim: Any) -> Any:
    value = json.to_value(claim)
    meta = {key: part for key, part in value["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    status = {key: part for key, part in value.get("status", {}).items() if key not in _CLAIM_STATUS}
    return {**value, "metadata": meta, "status": status}


async def _check_token_request(attributes: AdmissionAttributes, node: str) -> None:
    if attributes.operation != "CREATE" or attributes.subresource != "token":
        return
    request: TokenRequest = attributes.obj
    ref = request.spec.boundObjectRef
    if ref is None or (ref.apiVersion, ref.kind) != ("v1", "Pod") or not ref.name:
        raise attributes.forbidden("node requested token not bound to a pod")
    if not ref.uid:
        raise attributes.forbidden("node requested token with a pod binding without a uid")
    pod = await _get_pod(attributes, ref.name)
    if ref.uid != pod.metadata.uid:
        text = f"the UID in the bound object reference ({ref.uid}) does not match the UID in record."
        raise attributes.forbidden(f"{text} The object might have been deleted and then recreated")
    if pod.spec.nodeName != node:
        raise attributes.forbidden("node requested token bound to a pod scheduled on a different node")
    if lacking := await find_audience_error(attributes, pod, request.spec.audiences or []):
        raise attributes.forbidden(lacking)


async def _check_signing_request(attributes: AdmissionAttributes, node: str) -> None:
    if attributes.operation != "CREATE" or attributes.obj.spec.signerName not in _SIGNERS:
        return
    try:
        parsed = parse_request(attributes.obj.spec.request or b"")
    except ValueError as error:
        raise attributes.forbidden(f"unable to parse csr: {error}") from None
    from sampan.machinery.pki.certificates import subject_common_name

    if subject_common_name(parsed.subject) != f"{_PREFIX}{node}":
        raise attributes.forbidden(f"can only create a node CSR with CN={_PREFIX}{node}")


async def _check_certificate_request(attributes: AdmissionAttributes, node: str) -> None:
    """Reject a PodCertificateRequest unless it is for a pod of the node. A request that does not fit to the cached
    objects gets an error that lets the kubelet try again, because the cache may be stale."""
    if not attributes.services.feature_gates.is_enabled("PodCertificateRequest"):
        raise attributes.forbidden("PodCertificateRequest feature gate is disabled")
    if attributes.operation != "CREATE":
        raise attributes.forbidden(f"unexpected operation {attributes.operation}")
    if attributes.subresource:
        raise attributes.forbidden(f"unexpected subresource {attributes.subresource}")
    spec = attributes.obj.spec
    if spec.nodeName != node:
        text = f"PodCertificateRequest.Spec.NodeName={gotext.quote(spec.nodeName)}, which is not the requesting node"
        raise attributes.forbidden(f"{text} {gotext.quote(node)}")
    title = f"PodCertificateRequest for pod {gotext.quote(f'{attributes.namespace}/{spec.podName}')}"
    running_node = await _find_named(attributes, "Node", "", "node", spec.nodeName)
    if running_node.metadata.uid != spec.nodeUID:
        uids = f"{gotext.quote(spec.nodeUID)}, inconsistent with the running node"
        raise _stale(f"{title} names node UID {uids} ({gotext.quote(running_node.metadata.uid)})")
    pod: Pod = await _find_named(attributes, "Pod", attributes.namespace, "pod", spec.podName)
    if pod.metadata.uid != spec.podUID:
        uids = f"({gotext.quote(spec.podUID)}) which differs from running pod {gotext.quote(pod.metadata.uid)}"
        raise _stale(f"{title} contains pod UID {uids}")
    await _check_certificate_of_pod(attributes, pod, title)


async def _check_certificate_of_pod(attributes: AdmissionAttributes, pod: Pod, title: str) -> None:
    spec, quoted_pod = attributes.obj.spec, gotext.quote(f"{attributes.namespace}/{pod.metadata.name}")
    if pod.spec.nodeName != spec.nodeName:
        text = f"pod {quoted_pod} is not running on node {gotext.quote(spec.nodeName)} named in the"
        raise attributes.forbidden(f"{text} PodCertificateRequest")
    if is_mirror_pod(pod):
        raise attributes.forbidden(f"pod {quoted_pod} is a mirror pod")
    if pod.spec.serviceAccountName != spec.serviceAccountName:
        accounts = f"({gotext.quote(spec.serviceAccountName)}) that differs from running pod"
        text = f"{title} contains serviceAccountName {accounts} ({gotext.quote(pod.spec.serviceAccountName)})"
        raise attributes.forbidden(text)
    account = await _find_named(
        attributes, "ServiceAccount", attributes.namespace, "service account", spec.serviceAccountName
    )
    if account.metadata.uid != spec.serviceAccountUID:
        uids = f"{gotext.quote(spec.serviceAccountUID)}, which differs from the running service account"
        raise _stale(f"{title} names service account UID {uids} ({gotext.quote(account.metadata.uid)})")
    if not await _may_request_certificate(attributes, pod):
        text = f"pod {quoted_pod} does not mount a podCertificate projected volume for signer"
        raise attributes.forbidden(f"{text} {gotext.quote(spec.signerName)}")


async def _may_request_certificate(attributes: AdmissionAttributes, pod: Pod) -> bool:
    """Whether a volume of the pod needs a certificate of the signer, or the node is authorized for the signer."""
    spec = attributes.obj.spec
    for volume in pod.spec.volumes:
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            if source.podCertificate is not None and source.podCertificate.signerName == spec.signerName:
                return True
    request = AuthzAttributes(
        attributes.user,
        _SIGNER_VERB,
        group=attributes.resource.group,
        version=attributes.resource.version,
        resource=spec.signerName.replace("/", ":"),
        namespace=attributes.namespace,
        name=spec.serviceAccountName,
    )
    return await is_allowed(attributes, request)


async def _find_named(attributes: AdmissionAttributes, kind: str, namespace: str, title: str, name: str) -> Any:
    obj = await lookup.find(attributes.registry.open_store_of("", "v1", kind), namespace, name)
    if obj is None:
        shown = f"{namespace}/{name}" if namespace else name
        missing = errors.not_found(f"{kind.lower()}s", name).message
        raise _stale(f"while retrieving {title} {gotext.quote(shown)} named in the PodCertificateRequest: {missing}")
    return obj


def _stale(message: str) -> errors.ApiError:
    return errors.unexpected_error(message)


_RULES = {
    ("", "pods"): _check_pods,
    ("", "nodes"): _check_node,
    ("", "persistentvolumeclaims"): _check_claim,
    ("", "serviceaccounts"): _check_token_request,
    ("coordination.k8s.io", "leases"): _check_lease,
    ("storage.k8s.io", "csinodes"): _check_csi_node,
    ("resource.k8s.io", "resourceslices"): _check_resource_slice,
    ("certificates.k8s.io", "certificatesigningrequests"): _check_signing_request,
    ("certificates.k8s.io", "podcertificaterequests"): _check_certificate_request,
}


def find_mirror_pod_error(pod: Pod, node: str) -> str:
    """Return why the node may not create the pod; "" if it may. The UID of the owner reference is not checked here."""
    own = gotext.quote(node)
    if not is_mirror_pod(pod):
        return f"pod does not have {gotext.quote(CONFIG_MIRROR)} annotation, node {own} can only create mirror pods"
    if pod.spec.nodeName != node:
        return f"node {own} can only create pods with spec.nodeName set to itself"
    return _find_owner_error(pod, node)


def _find_owner_error(pod: Pod, node: str) -> str:
    start, owners = f"node {gotext.quote(node)}", pod.metadata.ownerReferences
    if len(owners) > 1:
        return f"{start} can only create pods with a single owner reference set to itself"
    if not owners or (owners[0].apiVersion, owners[0].kind, owners[0].name) != ("v1", "Node", node):
        return f"{start} can only create pods with an owner reference set to itself"
    if not owners[0].controller:
        return f"{start} can only create pods with a controller owner reference set to itself"
    if owners[0].blockOwnerDeletion:
        return f"{start} must not set blockOwnerDeletion on an owner reference"
    return ""


_AUDIENCE_VERB = "request-serviceaccounts-token-audience"


async def find_audience_error(attributes: AdmissionAttributes, pod: Pod, audiences: list[str]) -> str:
    """Return why the node may not request a token for these audiences; "" if it may."""
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = audiences[0] if audiences else ""
    quoted_audience, user = gotext.quote(audience), attributes.user
    try:
        if await _requests_audience(attributes, pod, audience):
            return ""
    except errors.NotFound as error:
        return f"error validating audience {quoted_audience}: {error.message}"
    request = AuthzAttributes(
        user, _AUDIENCE_VERB, "", "", "v1", audience, namespace=attributes.namespace, name=attributes.name
    )
    if await is_allowed(attributes, request):
        return ""
    return f"{user.name} is not authorized to request tokens for audience {quoted_audience}"


async def _requests_audience(attributes: AdmissionAttributes, pod: Pod, audience: str) -> bool:
    lost: errors.NotFound | None = None
    for volume in pod.spec.volumes:
        if volume.projected is not None and any(
            source.serviceAccountToken is not None and source.serviceAccountToken.audience == audience
            for source in volume.projected.sources or ()
        ):
            return True
        try:
            driver = await _find_driver(attributes, pod, volume)
            if driver is not None and any(
                token_request.audience == audience for token_request in driver.spec.tokenRequests
            ):
                return True
        except errors.NotFound as error:
            lost = error
    if lost is not None:
        raise lost
    return False


async def _find_driver(attributes: AdmissionAttributes, pod: Pod, volume: Volume) -> CSIDriver | None:
    """Return the CSI driver of a pod's volume, which the volume or its claim names; None if it has no driver."""
    if volume.csi is not None:
        name = volume.csi.driver
    else:
        claim = _claim_name(pod, volume)
        name = await _find_claim_driver(attributes, pod.metadata.namespace, claim) if claim else ""
    if not name:
        return None
    store = attributes.registry.open_store_of("storage.k8s.io", "v1", "CSIDriver")
    driver: CSIDriver | None = await lookup.find(store, "", name)
    if driver is None:
        raise errors.not_found("csidrivers", name, group="storage.k8s.io")
    return driver


def _claim_name(pod: Pod, volume: Volume) -> str:
    if volume.ephemeral is not None and volume.ephemeral.volumeClaimTemplate is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return volume.persistentVolumeClaim.claimName if volume.persistentVolumeClaim is not None else ""


async def _find_claim_driver(attributes: AdmissionAttributes, namespace: str, name: str) -> str:
    registry = attributes.registry
    claim: PersistentVolumeClaim | None = await lookup.find(
        registry.open_store_of("", "v1", "PersistentVolumeClaim"), namespace, name
    )
    if claim is None:
        raise errors.not_found("persistentvolumeclaims", name)
    volume: PersistentVolume | None = await lookup.find(
        registry.open_store_of("", "v1", "PersistentVolume"), "", claim.spec.volumeName
    )
    if volume is None:
        raise errors.not_found("persistentvolumes", claim.spec.volumeName)
    return volume.spec.csi.driver if volume.spec.csi is not None else ""
