"""The objects that a hollow pod refers to: config maps, secrets, claims, trust bundles, certificates and its service
account.

Nothing is mounted and no process has an environment, but both are computed by the code of a real kubelet, so that a
missing object or key has the same effect. Objects are read when containers start; a pod that lacks one is tried again
as soon as a config map or secret that it refers to changes. A pod without references costs nothing. Certificates are
requested and refreshed as on a real node, so that a signer has the same work, but with one key for all pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sampan.api.feature_gates import FeatureGates
from sampan.api.semantics.pods import ACCESS_VOLUME_PREFIX, AnyContainer, as_container, init_and_main_containers
from sampan.api.types.core_v1 import ConfigMap, FileKeySelector, Node, Pod, Secret, ServiceAccount, Volume
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.kubelet.container_config.downward import DownwardApiContext
from sampan.kubelet.container_config.variables import ContainerConfigError, VariableSources, container_variables
from sampan.kubelet.container_starter import CONFIG_ERROR
from sampan.kubelet.objects import NotSynced, ObjectKey, PodObjects, read_variable_objects
from sampan.kubelet.records import PodRecord
from sampan.kubelet.volumes.claim_resolver import ClaimResolver, check_node
from sampan.kubelet.volumes.contract import ClaimError, VolumeOperationError
from sampan.kubelet.volumes.manager import describe_claim_errors, describe_volume_failure
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.plugins.api_objects import ConfigMapPlugin, DownwardApiPlugin, SecretPlugin
from sampan.kubelet.volumes.plugins.pod_certificates import NoPodCertificates, PodCertificateManager, shared_key
from sampan.kubelet.volumes.plugins.projected import ProjectedPlugin
from sampan.kubelet.volumes.plugins.trust_bundles import NoTrustBundles, TrustAnchors, TrustBundles
from sampan.kubelet.volumes.state import DesiredPod, desired_pod
from sampan.kubelet.volumes.volume_host import ServiceAccountToken, VolumeConfig, VolumeHost, VolumeLayout
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.informer import InformerFactory
from sampan.runtimes.contract import PodReport, RuntimeFailure

T = TypeVar("T")
_MAX_KNOWN_ACCOUNTS = 10_000
_FOREVER = float("inf")


class ApiObjects:
    """Reads config maps and secrets with one request each, and keeps none."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self._get(ConfigMap, namespace, name)

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await self._get(Secret, namespace, name)

    async def _get(self, kind: type[T], namespace: str, name: str) -> T | None:
        try:
            return await self._client.for_kind(kind).get(name, namespace)
        except errors.NotFound:
            return None
        except (errors.ApiError, ConnectionFailed) as error:
            raise NotSynced(f"failed to sync {kind.__name__.lower()} cache: {error}") from error


class AccountTokens:
    """Takes the place of the tokens of service accounts: no token is issued, but the account must exist."""

    def __init__(self, client: Client) -> None:
        self._accounts = client.for_kind(ServiceAccount)

    async def get(self, pod: Pod, audiences: Sequence[str], expiration_s: int | None) -> ServiceAccountToken:
        try:
            await self._accounts.get(pod.spec.serviceAccountName, pod.metadata.namespace)
        except (errors.ApiError, ConnectionFailed) as error:
            raise VolumeOperationError(f"failed to fetch token: {error}") from error
        return ServiceAccountToken("", expires_at=_FOREVER, renew_at=_FOREVER)

    def forget(self, uid: str) -> None:
        return


class HollowReferences:
    """The references of all pods of a fleet. `on_change` receives the UID of each pod that lacks an object when one of
    its objects changes."""

    def __init__(
        self,
        *,
        client: Client,
        client_for: Callable[[str], Client],
        informers: InformerFactory,
        clock: Clock,
        gates: FeatureGates,
        on_change: Callable[[str], None],
        warn: Callable[[Pod, str, str], None],
        activity: Activity,
    ) -> None:
        """`client` reads for all nodes, `client_for` returns the client of a node. `warn` records an event about a pod,
        with its reason and message."""
        self._pod_certificates: PodCertificateManager | None = None
        if gates.is_enabled("PodCertificateRequest"):
            self._pod_certificates = PodCertificateManager(
                informers=informers,
                client_for=client_for,
                find_node=informers.for_kind(Node).lister.get,
                clock=clock,
                on_change=lambda uid, volume: on_change(uid),
                warn=warn,
                make_key=shared_key,
                activity=activity,
            )
        trust_bundles: TrustAnchors = NoTrustBundles()
        if gates.is_enabled("ClusterTrustBundleProjection"):
            trust_bundles = TrustBundles(client=client, informers=informers, on_change=self._on_trust_bundle)
        self._objects, self._tokens = ApiObjects(client), AccountTokens(client)
        host = VolumeHost(
            config=VolumeConfig(root=Path(), node_name=""),
            layout=VolumeLayout(Path()),
            mounter=Mounter(can_mount=False),
            client=client,
            informers=informers,
            objects=self._objects,
            tokens=self._tokens,
            trust_bundles=trust_bundles,
            pod_certificates=self._pod_certificates or NoPodCertificates(),
            clock=clock,
        )
        self._plugins = (ConfigMapPlugin(host), SecretPlugin(host), DownwardApiPlugin(host), ProjectedPlugin(host))
        self._claims = ClaimResolver(client=client)
        self._on_change = on_change
        self._watched_objects = PodObjects(informers=informers, on_change=self._on_object)
        self._lacking: set[str] = set()
        """UIDs of the pods that lack an object."""
        self._known_accounts: set[tuple[str, str]] = set()
        """Namespaces and names of service accounts that exist or have existed. The API server accepts pods of existing
        accounts only, so that they need no second check."""

    async def run(self) -> None:
        """Request the certificates of pods until cancelled."""
        if self._pod_certificates is not None:
            await self._pod_certificates.run()

    # -- volumes -----------------------------------------------------------------------------------------------------

    async def find_mount_failures(self, pod: Pod, node: Node) -> list[str]:
        """Return the messages of the events about volumes that cannot be mounted."""
        if all(_is_access(volume) for volume in pod.spec.volumes) and self._is_known_account(pod):
            return []
        if self._pod_certificates is not None:
            self._pod_certificates.track(pod)
        desired, failures, failed = desired_pod(pod), list[str](), list[str]()
        for name, volume in desired.volumes.items():
            try:
                await (self._check_account(pod) if _is_access(volume) else self._set_up(desired, volume, node))
            except ClaimError as error:
                failed.append(name)
                desired.claim_errors[name] = error.text
            except VolumeOperationError as error:
                failed.append(name)
                failures.append(describe_volume_failure(desired.inner.get(name, name), error))
        return failures + ([describe_claim_errors(desired, failed)] if desired.claim_errors else [])

    async def _set_up(self, desired: DesiredPod, volume: Volume, node: Node) -> None:
        pod = desired.pod
        spec = await self._claims.spec(pod, volume, mounts=desired.mounts, devices=desired.devices)
        desired.inner[volume.name] = spec.inner
        if spec.persistent is not None:
            check_node(spec.persistent, node)
        for plugin in self._plugins:
            if plugin.supports(spec):
                await plugin.payload(spec)

    async def _check_account(self, pod: Pod) -> None:
        """Check the account of the volume for access to the API server. Its config map with a certificate is not
        checked: a new namespace receives it a moment later than its first pods."""
        if not self._is_known_account(pod):
            await self._tokens.get(pod, (), None)
            if len(self._known_accounts) < _MAX_KNOWN_ACCOUNTS:
                self._known_accounts.add((pod.metadata.namespace, pod.spec.serviceAccountName))

    def _is_known_account(self, pod: Pod) -> bool:
        return (pod.metadata.namespace, pod.spec.serviceAccountName) in self._known_accounts

    # -- environment -------------------------------------------------------------------------------------------------

    async def check_variables(self, record: PodRecord, container: AnyContainer, report: PodReport) -> None:
        """Compute the environment of a container. Raise RuntimeFailure if that is not possible."""
        pod, plain = record.pod, as_container(container)
        if not plain.envFrom and all(variable.valueFrom is None for variable in plain.env):
            return
        node = record.node
        context = DownwardApiContext(
            node_name=node.name,
            host_ips=(node.machine.address,),
            pod_ips=report.ips,
            allocatable=node.api_node.status.allocatable,
        )
        try:
            config_maps, secrets = await read_variable_objects(self._objects, pod, plain)
            sources = VariableSources(
                config_map=config_maps.get, secret=secrets.get, file_key=_name_of_key, services={}
            )
            container_variables(pod, plain, sources, context)
        except (ContainerConfigError, NotSynced) as error:
            raise RuntimeFailure(CONFIG_ERROR, str(error)) from None

    async def find_missing_pull_secrets(self, pod: Pod) -> list[str]:
        names = [reference.name for reference in pod.spec.imagePullSecrets if reference.name]
        return [name for name in names if not await self._has_secret(pod, name)]

    async def _has_secret(self, pod: Pod, name: str) -> bool:
        try:
            return await self._objects.secret(pod.metadata.namespace, name) is not None
        except NotSynced:
            return False

    # -- pods that lack an object ------------------------------------------------------------------------------------

    def follow(self, pod: Pod) -> None:
        """Watch the config maps and secrets of a pod that lacks an object."""
        self._lacking.add(pod.metadata.uid)
        self._watched_objects.follow(pod)

    def settle(self, pod: Pod, report: PodReport) -> None:
        """Stop watching the objects of a pod whose containers have all been started."""
        if pod.metadata.uid in self._lacking and len(report.containers) >= len(init_and_main_containers(pod.spec)):
            self._stop_watching(pod.metadata.uid)

    def forget(self, uid: str) -> None:
        self._stop_watching(uid)
        if self._pod_certificates is not None:
            self._pod_certificates.forget(uid)

    def _stop_watching(self, uid: str) -> None:
        if uid in self._lacking:
            self._lacking.discard(uid)
            self._watched_objects.forget(uid)

    def _on_trust_bundle(self) -> None:
        for uid in self._lacking:
            self._on_change(uid)

    def _on_object(self, key: ObjectKey) -> None:
        for uid in self._watched_objects.users(key):
            self._on_change(uid)


def _is_access(volume: Volume) -> bool:
    """Whether the volume is the one that the API server adds to each pod for access to itself."""
    return volume.projected is not None and volume.name.startswith(ACCESS_VOLUME_PREFIX)


def _name_of_key(reference: FileKeySelector) -> str:
    """Return a value for a key in a file that a container of the pod would have written."""
    return reference.key
