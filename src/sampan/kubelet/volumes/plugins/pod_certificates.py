"""Certificates of pods for projected volumes (`pkg/kubelet/podcertificate`).

Each podCertificate source of a pod has a private key, which never leaves the node, and a PodCertificateRequest that a
signer answers with a certificate chain. Before the certificate expires, a new key and request replace it; the old
certificate stays in use until then. A request that is denied or that fails is final for the pod. Nothing is kept on
disk: after a restart of the kubelet all certificates are requested again.
"""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from sampan.api.go_compat import gotext
from sampan.api.types import certificates_v1, certificates_v1beta1
from sampan.api.types.core_v1 import Node, Pod, PodCertificateProjection, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.values import times
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.machinery import errors
from sampan.machinery.client import EVERYTHING, Client, ConnectionFailed, Selection, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.machinery.informer import InformerFactory, Lister
from sampan.machinery.pki.pem import CERTIFICATE, PemBlock, read_blocks

log = logging.getLogger(__name__)

_Request: TypeAlias = certificates_v1.PodCertificateRequest | certificates_v1beta1.PodCertificateRequest
_VERSIONS: Final[Sequence[type[_Request]]] = (
    certificates_v1.PodCertificateRequest,
    certificates_v1beta1.PodCertificateRequest,
)
_Key: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

DENIED, FAILED, ISSUED = "Denied", "Failed", "Issued"
OVERDUE, EXPIRED = "CertificateOverdueForRefresh", "CertificateExpired"
NOT_ISSUED = "credential bundle is not issued yet"
_DELETED_AFTER_S = 600.0
"""A request that the watch does not show for so long after its creation has been deleted."""
_OVERDUE_AFTER_S = 600.0
"""A certificate is overdue so long after the time at which its refresh begins."""
_MAX_JITTER_S = 300.0
"""Refreshes are delayed by up to this time, so that the pods of a node do not all ask the signer at once."""
_BACKOFF = Backoff(0.005, 1000.0)
_WORKERS = 4
_RANDOM = random.Random()
"""A random number generator of this module, because tests may seed the global one."""


class PrivateKey(NamedTuple):
    pem: bytes
    request: bytes
    """A certificate request without a subject, in DER, which proves the possession of the key."""


_GENERATORS: Final[Mapping[str, Callable[[], _Key]]] = {
    "RSA3072": lambda: rsa.generate_private_key(65537, 3072),
    "RSA4096": lambda: rsa.generate_private_key(65537, 4096),
    "ECDSAP256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ECDSAP384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ECDSAP521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "ED25519": ed25519.Ed25519PrivateKey.generate,
}


def generate_key(key_type: str) -> PrivateKey:
    """Return a new key of a type of the API. Raise VolumeOperationError if the type is unknown."""
    if key_type not in _GENERATORS:
        quoted = gotext.quote(key_type)
        raise VolumeOperationError(f"while generating keypair: unknown key type {quoted}")
    key = _GENERATORS[key_type]()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else _digest(key)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return PrivateKey(pem, request.public_bytes(serialization.Encoding.DER))


def _digest(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512:
    if key.key_size == 384:
        return hashes.SHA384()
    return hashes.SHA512() if key.key_size == 521 else hashes.SHA256()


shared_key = functools.cache(generate_key)
"""Returns one key for each type, for hollow nodes, whose keys protect nothing."""


class Credentials(NamedTuple):
    key: bytes
    chain: bytes


class PodCertificates(Protocol):
    """The certificates for the projected volumes of a node."""

    def credentials(self, pod: Pod, volume: str, position: int) -> Credentials:
        """Return the key and the certificate chain of a source, as PEM. Raise VolumeOperationError if there are none
        yet, or if there will be none."""


class NoPodCertificates:
    """Takes the place of PodCertificateManager if the feature is disabled."""

    def credentials(self, pod: Pod, volume: str, position: int) -> Credentials:
        raise VolumeOperationError("unimplemented")


class _SourceKey(NamedTuple):
    """A podCertificate source of a pod."""

    uid: str
    volume: str
    position: int
    """The index among the sources of the volume."""


@dataclass(slots=True, kw_only=True)
class _Certificate:
    credentials: Credentials
    refresh_at: float
    not_after: float
    has_overdue_event: bool = False
    has_expiry_event: bool = False

    def next_events(self) -> Iterator[float]:
        """Yield the times at which an event is recorded if no refresh succeeds."""
        if not self.has_overdue_event:
            yield self.refresh_at + _OVERDUE_AFTER_S
        if not self.has_expiry_event:
            yield self.not_after


@dataclass(slots=True, kw_only=True)
class _PendingRequest:
    name: str
    key: bytes
    deleted_at: float
    """The time from which on the request has been deleted if it is not in the cache."""


@dataclass(slots=True, kw_only=True)
class _Source:
    """The state of a source: with a certificate, a pending request, both (a refresh), or neither."""

    pod: Pod
    projection: PodCertificateProjection
    certificate: _Certificate | None = None
    pending: _PendingRequest | None = None
    refusal: str = ""
    """Why there will be no certificate; empty if there may be one."""
    error: str = ""
    """Why no request could be created at the last attempt."""


class PodCertificateManager:
    """Requests certificates for the pods that it tracks, while `run()` is active."""

    def __init__(
        self,
        *,
        informers: InformerFactory,
        client_for: Callable[[str], Client],
        find_node: Callable[[str], Node | None],
        clock: Clock,
        on_change: Callable[[str, str], None],
        warn: Callable[[Pod, str, str], None],
        node_name: str = "",
        make_key: Callable[[str], PrivateKey] = generate_key,
        activity: Activity | None = None,
    ) -> None:
        """`client_for` returns the client of a node. Requests of one node are watched, or those of all nodes if
        `node_name` is empty. `on_change` receives the UID of a pod and the name of a volume that has to be set up
        again, `warn` a pod with the reason and the message of an event."""
        self._informers, self._client_for, self._find_node, self._clock = informers, client_for, find_node, clock
        self._on_change, self._warn, self._make_key = on_change, warn, make_key
        self._selection = Selection(fields=f"spec.nodeName={node_name}") if node_name else EVERYTHING
        self._sources: dict[_SourceKey, _Source] = {}
        self._keys_of_pod: dict[str, list[_SourceKey]] = {}
        self._kind: type[_Request] | None = None
        self._requests: Lister[_Request] = Lister()
        self._activity = activity or Activity()
        self._queue: WorkQueue[_SourceKey] = WorkQueue(clock=clock, backoff=_BACKOFF, activity=self._activity)

    def track(self, pod: Pod) -> None:
        """Request certificates for the sources of a pod, unless it is tracked already."""
        uid = pod.metadata.uid
        if uid in self._keys_of_pod:
            return
        sources = {
            _SourceKey(uid, volume, position): projection for volume, position, projection in certificate_sources(pod)
        }
        if sources:
            self._keys_of_pod[uid] = list(sources)
        for key, projection in sources.items():
            self._sources[key] = _Source(pod=pod, projection=projection)
            self._queue.add(key)

    def forget(self, uid: str) -> None:
        for key in self._keys_of_pod.pop(uid, ()):
            del self._sources[key]

    def credentials(self, pod: Pod, volume: str, position: int) -> Credentials:
        key = _SourceKey(pod.metadata.uid, volume, position)
        source = self._sources.get(key)
        if source is None:
            fields = (pod.metadata.namespace, pod.metadata.name, key.uid, volume, str(position))
            raise VolumeOperationError(f"no credentials yet for key={{{' '.join(fields)}}}")
        if source.refusal:
            raise VolumeOperationError(source.refusal)
        if source.certificate is None:
            raise VolumeOperationError(f"{NOT_ISSUED}: {source.error}" if source.error else NOT_ISSUED)
        return source.certificate.credentials

    def count_states(self) -> Mapping[tuple[str, str], int]:
        """Return the number of sources by signer and state."""
        now, counts = self._clock.now(), dict[tuple[str, str], int]()
        for source in self._sources.values():
            key = source.projection.signerName, _state(source, now)
            counts[key] = counts.get(key, 0) + 1
        return counts

    async def run(self) -> None:
        """Request and refresh certificates until cancelled."""
        await self._queue.serve(self._work, _WORKERS)

    async def _work(self, key: _SourceKey) -> None:
        source = self._sources.get(key)
        if source is None:
            return
        try:
            with self._activity:
                again_s = await self._sync(key, source)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed) as error:
            source.error = str(error)
            pause_s = self._queue.retry(key)
            log.info(
                "cannot request a certificate for volume %s of pod %s/%s: %s; retrying in %g s",
                key.volume,
                source.pod.metadata.namespace,
                source.pod.metadata.name,
                error,
                pause_s,
            )
        else:
            self._queue.forget(key)
            if again_s is not None:
                self._queue.add_after(key, again_s, follows_wall_clock=True)

    async def _sync(self, key: _SourceKey, source: _Source) -> float | None:
        """Bring the source one step further. Return the seconds until the next step is due without a change."""
        now = self._clock.now()
        if source.refusal:
            return None
        if source.pending is not None and self._read_answer(key, source, source.pending):
            self._on_change(key.uid, key.volume)
        if source.certificate is not None:
            if source.pending is None and now < source.certificate.refresh_at:
                return float(source.certificate.refresh_at - now)
            self._record_age(source, source.certificate, now)
        if source.refusal:
            return None
        if source.pending is None:
            source.pending = await self._create_request(source)
            source.error = ""
        now = self._clock.now()
        deadlines = [source.pending.deleted_at] if source.pending.deleted_at > now else []
        if source.certificate is not None:
            deadlines += source.certificate.next_events()
        return min(deadlines) - now if deadlines else None

    def _read_answer(self, key: _SourceKey, source: _Source, pending: _PendingRequest) -> bool:
        """Apply the answer to a request. Return whether there is one."""
        request = self._requests.get(pending.name, source.pod.metadata.namespace)
        if request is None:
            if self._clock.now() >= pending.deleted_at:
                source.pending = None
            return False
        name = f"{request.metadata.namespace}/{request.metadata.name}"
        for condition in request.status.conditions:
            reason, message = gotext.quote(condition.reason), gotext.quote(condition.message)
            if condition.type in (DENIED, FAILED):
                verb = "was denied" if condition.type == DENIED else "failed"
                outcome = f"permanently {condition.type.lower()}"
                source.refusal = f"PodCertificateRequest was {outcome}: reason={reason} message={message}"
                source.certificate = source.pending = None
                text = f"PodCertificateRequest {name} {verb}, reason={reason}, message={message}"
                self._warn(source.pod, condition.type, text)
                return True
            if condition.type == ISSUED:
                refresh_at = times.parse_time(request.status.beginRefreshAt or "")
                source.certificate = _Certificate(
                    credentials=Credentials(pending.key, clean_chain(request.status.certificateChain)),
                    refresh_at=refresh_at + _RANDOM.uniform(0, _MAX_JITTER_S),
                    not_after=times.parse_time(request.status.notAfter or ""),
                )
                source.pending = None
                return True
        return False

    def _record_age(self, source: _Source, certificate: _Certificate, now: float) -> None:
        """Record the events about a certificate that should have been refreshed."""
        if now >= certificate.refresh_at + _OVERDUE_AFTER_S and not certificate.has_overdue_event:
            certificate.has_overdue_event = True
            self._warn(source.pod, OVERDUE, "PodCertificate refresh overdue")
        if now >= certificate.not_after and not certificate.has_expiry_event:
            certificate.has_expiry_event = True
            self._warn(source.pod, EXPIRED, "PodCertificate expired")

    async def _create_request(self, source: _Source) -> _PendingRequest:
        pod, projection = source.pod, source.projection
        meta, node = pod.metadata, self._find_node(pod.spec.nodeName)
        if node is None:
            name = gotext.quote(pod.spec.nodeName)
            raise VolumeOperationError(f"while getting node object from local cache: node {name} not found")
        client = self._client_for(pod.spec.nodeName)
        kind = await self._select_kind(client)
        account = await client.for_kind(ServiceAccount).get(pod.spec.serviceAccountName, meta.namespace)
        key = await run_in_thread(self._make_key, projection.keyType)
        request = kind(
            metadata=ObjectMeta(
                namespace=meta.namespace,
                generateName="req-",
                ownerReferences=[OwnerReference(apiVersion="v1", kind="Pod", name=meta.name, uid=meta.uid)],
            )
        )
        spec = request.spec
        spec.signerName, spec.podName, spec.podUID = projection.signerName, meta.name, meta.uid
        spec.serviceAccountName, spec.serviceAccountUID = pod.spec.serviceAccountName, account.metadata.uid
        spec.nodeName, spec.nodeUID = pod.spec.nodeName, node.metadata.uid
        spec.maxExpirationSeconds, spec.stubPKCS10Request = projection.maxExpirationSeconds, key.request
        spec.unverifiedUserAnnotations = dict(projection.userAnnotations)
        created = await client.for_kind(kind).create(request)
        created_at = times.parse_time(created.metadata.creationTimestamp or "")
        return _PendingRequest(
            name=created.metadata.name,
            key=key.pem,
            deleted_at=created_at + _DELETED_AFTER_S + _RANDOM.uniform(0, _MAX_JITTER_S),
        )

    async def _select_kind(self, client: Client) -> type[_Request]:
        """Return the version of PodCertificateRequest that the API server serves, and watch it from now on."""
        if self._kind is not None:
            return self._kind
        kind = await Discovery(client).select_served(_VERSIONS)
        if kind is None:
            raise VolumeOperationError("the API server serves no PodCertificateRequests")
        if self._kind is None:
            self._kind = kind
            informer = self._informers.informer(resource_of(kind), self._selection)
            self._requests = informer.lister
            informer.subscribe(self._on_request)
        return kind

    def _on_request(self, old: _Request | None, new: _Request | None) -> None:
        request = new if new is not None else old
        if request is not None:
            for key in self._keys_of_pod.get(request.spec.podUID, ()):
                self._queue.add(key)


def certificate_sources(pod: Pod) -> Iterator[tuple[str, int, PodCertificateProjection]]:
    """Yield the podCertificate sources of a pod, each with the name of its volume and its index there."""
    for volume in pod.spec.volumes:
        sources = (volume.projected.sources or ()) if volume.projected is not None else ()
        for position, source in enumerate(sources):
            if source.podCertificate is not None:
                yield volume.name, position, source.podCertificate


def clean_chain(text: str) -> bytes:
    """Return the certificates of a chain without text between them and without headers."""
    return b"".join(PemBlock(CERTIFICATE, block.content).encode() for block in read_blocks(text.encode()))


def _state(source: _Source, now: float) -> str:
    if source.refusal:
        return "denied" if "permanently denied" in source.refusal else "failed"
    certificate = source.certificate
    if certificate is None:
        return "not_yet_issued"
    if now > certificate.not_after:
        return "expired"
    return "overdue_for_refresh" if now > certificate.refresh_at + _OVERDUE_AFTER_S else "fresh"
