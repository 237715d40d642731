"""The lease by which each API server announces itself, and the removal of the leases of servers that are gone.

The counterparts are the lease controller of `pkg/controlplane/apiserver` and `controller/apiserverleasegc`.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import socket
import uuid

from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.copies import copy_of

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
DURATION_S = 3600
COLLECTION_INTERVAL_S = 3600.0
"""How often expired leases are removed."""
_IDENTITY, _HOST_NAME = "apiserver.kubernetes.io/identity", "kubernetes.io/hostname"
_COMPONENT = "kube-apiserver"


def server_id(host_name: str) -> str:
    """Return the name of the lease of a server on that host, the same as that of kube-apiserver."""
    parts = (host_name.encode(), _COMPONENT.encode())
    digest = hashlib.sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()
    return "apiserver-" + base64.b32encode(digest[:16]).decode().rstrip("=").lower()


class IdentityLease:
    """Renews the lease of this server every `interval_s` seconds, and collects those that have expired."""

    def __init__(self, *, client: Client, clock: Clock, interval_s: float, host_name: str = "") -> None:
        self._leases, self._clock, self._interval_s = client.for_kind(Lease), clock, interval_s
        self._host_name = host_name or socket.gethostname()
        self.name = server_id(self._host_name)
        self._holder = f"{self.name}_{uuid.uuid4()}"

    async def run(self) -> None:
        collection_due = self._clock.monotonic()
        while True:
            try:
                await self.renew()
                if self._clock.monotonic() >= collection_due:
                    collection_due += COLLECTION_INTERVAL_S
                    await self.collect_expired()
            except (errors.ApiError, ConnectionFailed) as error:
                log.warning("cannot renew lease %s/%s of the API server: %s", NAMESPACE, self.name, error)
            await self._clock.sleep(self._interval_s)

    async def renew(self) -> None:
        """Create the lease, or extend it. A predecessor on the same host has the same lease."""
        try:
            lease = copy_of(await self._leases.get(self.name, NAMESPACE))
        except errors.NotFound:
            lease = Lease(metadata=ObjectMeta(name=self.name, namespace=NAMESPACE))
        write = self._leases.update if lease.metadata.resourceVersion else self._leases.create
        try:
            await write(self._renew_lease(lease))
        except (errors.Conflict, errors.AlreadyExists):
            return  # another server on this host has renewed it

    def _renew_lease(self, lease: Lease) -> Lease:
        lease.metadata.labels |= {_IDENTITY: _COMPONENT, _HOST_NAME: self._host_name}
        now = times.format_micro_time(self._clock.now())
        lease.spec = LeaseSpec(holderIdentity=self._holder, leaseDurationSeconds=DURATION_S, renewTime=now)
        return lease

    async def collect_expired(self) -> None:
        """Delete the leases of servers that have not renewed them in time."""
        selection = Selection(namespace=NAMESPACE, labels=f"{_IDENTITY}={_COMPONENT}")
        for lease in (await self._leases.list(selection)).items:
            if self._is_expired(lease):
                try:
                    await self._leases.delete(lease.metadata.name, NAMESPACE)
                except errors.NotFound:
                    continue  # another server was faster

    def _is_expired(self, lease: Lease) -> bool:
        spec = lease.spec
        if spec.renewTime is None or spec.leaseDurationSeconds is None:
            return True
        return times.parse_time(spec.renewTime) + spec.leaseDurationSeconds < self._clock.now()
