"""The Ingress controller of a process, which keeps the routing table for the servers of all nodes of the process.

It follows Ingresses, IngressClasses, services and secrets, and writes the status of the Ingresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from sampan.api.types.core_v1 import LoadBalancerIngress, Secret, Service
from sampan.api.types.networking_v1 import Ingress, IngressClass
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.ingress.backends import BackendEndpoints
from sampan.network.ingress.certificates import HostCertificates, UnusableSecret
from sampan.network.ingress.forwarder import IngressForwarder
from sampan.network.ingress.node_server import NodeIngress
from sampan.network.ingress.publication import CONTROLLER, INGRESS_CLASS, SERVICE, IngressConfig
from sampan.network.ingress.routing_table import RoutingTable, rules_of
from sampan.network.server_publication import PublishedServer, ServerPublication

log = logging.getLogger(__name__)

COMPONENT = "ingress"
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_TLS_SECRETS = Selection(fields="type=kubernetes.io/tls")
_SECRET_REASON = "UnusableSecret"
_RETRY_S = 5.0


def by_secret(ingress: Any) -> Iterable[Hashable]:
    """Index Ingresses by the secrets that they name."""
    namespace = ingress.metadata.namespace
    return dict.fromkeys(NamespacedName(namespace, tls.secretName) for tls in ingress.spec.tls if tls.secretName)


def by_class(ingress: Any) -> Iterable[Hashable]:
    """Index Ingresses by the name of their class."""
    return [class_name(ingress)]


def class_name(ingress: Ingress) -> str:
    """Return the name of the class of an Ingress: its `ingressClassName`, or else the annotation that preceded this
    field."""
    return ingress.spec.ingressClassName or ingress.metadata.annotations.get(_CLASS_ANNOTATION, "")


class IngressController:
    """The routing table, backends and certificates that the servers of all nodes of this process share.

    `async with` keeps them up to date while the servers run.
    """

    def __init__(self, *, config: IngressConfig, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self.config, self._client, self._informers, self._clock = config, client, informers, clock
        self.table = RoutingTable()
        self.backends = BackendEndpoints(informers=informers)
        self._ingresses, self._classes = informers.for_kind(Ingress), informers.for_kind(IngressClass)
        self._services, self._secrets = informers.for_kind(Service), informers.for_kind(Secret, _TLS_SECRETS)
        for index in (by_secret, by_class):
            self._ingresses.lister.add_index(index)
        self.certificates = HostCertificates(
            secret_of=self.table.secret_of, read_secret=self._secrets.lister.get_by_key, now=clock.now()
        )
        self._events = EventRecorder(client=client, clock=clock, component=COMPONENT)
        self.synced = asyncio.Event()
        """Set when the rules of all Ingresses are in the routing table."""
        self._outdated: set[NamespacedName] = set()
        """The Ingresses whose status may have to be written."""
        self._has_outdated = asyncio.Event()
        self.servers: dict[str, NodeIngress] = {}
        """The servers by node."""
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> IngressController:
        await self._group.__aenter__()
        self._tasks = [self._group.create_task(work) for work in (self._follow(), self._events.run())]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def server_of(self, *, node: str, namespace: NetworkNamespace, addresses: Sequence[str]) -> NodeIngress:
        async def publish(server: PublishedServer) -> None:
            await ServerPublication(
                server=server, client=self._client, informers=self._informers, clock=self._clock
            ).run()

        self.servers[node] = server = NodeIngress(
            config=self.config,
            node=node,
            namespace=namespace,
            addresses=addresses,
            make_forwarder=lambda: IngressForwarder(table=self.table, backends=self.backends, namespace=namespace),
            tls=self.certificates.context,
            is_synced=self.synced,
            publish=publish,
        )
        return server

    # -- the routing table -------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        stops: list[Callable[[], None]] = []
        try:
            await self._secrets.synced.wait()
            await self._classes.synced.wait()
            await self._ingresses.synced.wait()
            stops.append(await self._ingresses.follow(self._on_ingress))
            stops.append(self._classes.subscribe(self._on_class))
            stops.append(self._secrets.subscribe(self._on_secret))
            stops.append(self._services.subscribe(self._on_service))
            await self.backends.wait_synced()
            self.synced.set()
            await self._write_statuses()
        finally:
            for stop in stops:
                stop()

    def _on_ingress(self, old: Ingress | None, new: Ingress | None) -> None:
        if new is None:
            assert old is not None
            self.table.remove(key_of(old))
        elif old is None or old.spec != new.spec or class_name(old) != class_name(new):
            self._put(new)
        else:
            self._mark_outdated([new])

    def _put(self, ingress: Ingress) -> None:
        if not self._is_own(ingress):
            self.table.remove(key_of(ingress))
            return
        self.table.put(rules_of(ingress))
        self._check_secrets(ingress)
        self._mark_outdated([ingress])

    def _is_own(self, ingress: Ingress) -> bool:
        name = class_name(ingress)
        ingress_class = self._classes.lister.get(name)
        if ingress_class is None:  # the annotation needs no class object
            return not ingress.spec.ingressClassName and name == INGRESS_CLASS
        return ingress_class.spec.controller == CONTROLLER

    def _on_class(self, old: IngressClass | None, new: IngressClass | None) -> None:
        for ingress_class in (old, new):
            for ingress in self._ingresses.lister.find(by_class, ingress_class.metadata.name) if ingress_class else ():
                if self._is_own(ingress) != (key_of(ingress) in self.table):
                    self._put(ingress)

    def _on_secret(self, old: Secret | None, new: Secret | None) -> None:
        secret = new or old
        assert secret is not None
        self.certificates.forget(secret)
        for ingress in self._ingresses.lister.find(by_secret, key_of(secret)):
            if key_of(ingress) in self.table:
                self._check_secrets(ingress)

    def _check_secrets(self, ingress: Ingress) -> None:
        """Report the first secret without a usable certificate, for whose hosts the default certificate is used, and
        how many others there are."""
        unusable: list[UnusableSecret] = []
        for key in by_secret(ingress):
            assert isinstance(key, NamespacedName)
            try:
                self.certificates.context_of(key)
            except UnusableSecret as error:
                unusable.append(error)
        if unusable:
            message = str(unusable[0]) + (f" (and {len(unusable) - 1} other secrets)" if len(unusable) > 1 else "")
            log.warning("Ingress %s: %s", key_of(ingress), message)
            self._events.event(ingress, WARNING, _SECRET_REASON, f"using the default certificate: {message}")

    # -- the status --------------------------------------------------------------------------------------------------

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        if key_of(service) == SERVICE:
            self._mark_outdated(self._ingresses.lister)

    def _mark_outdated(self, ingresses: Iterable[Ingress]) -> None:
        self._outdated.update(key_of(ingress) for ingress in ingresses)
        self._has_outdated.set()

    async def _write_statuses(self) -> None:
        while True:
            await self._has_outdated.wait()
            self._has_outdated.clear()
            while self._outdated:
                key = self._outdated.pop()
                try:
                    await self._write_status(key)
                except (errors.NotFound, errors.Conflict):
                    continue
                except (errors.ApiError, ConnectionFailed) as error:
                    log.warning("cannot write the status of Ingress %s: %s; retrying", key, error)
                    self._outdated.add(key)
                    await self._clock.sleep(_RETRY_S)

    async def _write_status(self, key: NamespacedName) -> None:
        ingress = self._ingresses.lister.get_by_key(key)
        if ingress is None or key not in self.table:
            return
        desired = [entry.ip for entry in self._load_balancer() if entry.ip]
        if [entry.ip for entry in ingress.status.loadBalancer.ingress] == desired:
            return
        status = {"loadBalancer": {"ingress": [{"ip": address} for address in desired]}}
        await self._client.for_kind(Ingress).patch(key.name, {"status": status}, key.namespace, subresource="status")

    def _load_balancer(self) -> Sequence[LoadBalancerIngress]:
        service = self._services.lister.get_by_key(SERVICE)
        return service.status.loadBalancer.ingress if service is not None else ()
