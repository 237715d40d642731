"""Identity leases, by which API servers announce themselves."""

import asyncio

from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.apiserver.identity_lease import IdentityLease, server_id
from tests.controllers.cluster import Cluster, cluster

LABELS = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def identity(cluster: Cluster) -> IdentityLease:
    return IdentityLease(client=cluster.client, clock=cluster.clock, interval_s=10, host_name="host")


def test_lease_name_equals_that_of_kube_apiserver_on_the_same_host() -> None:
    assert server_id("host-1") == "apiserver-fl6obw4ijfryx25ur4ugqryswq"


def test_identity_lease_is_renewed_and_expired_leases_are_deleted() -> None:
    async def main() -> None:
        async with cluster() as running:
            leases = running.client.for_kind(Lease)
            old = times.format_micro_time(running.clock.now() - 3601)
            for name, labels, spec in (
                ("apiserver-dead", LABELS, LeaseSpec(renewTime=old, leaseDurationSeconds=3600)),
                ("apiserver-invalid", LABELS, LeaseSpec(holderIdentity="x")),
                ("unrelated", {}, LeaseSpec(renewTime=old, leaseDurationSeconds=3600)),
            ):
                meta = ObjectMeta(name=name, namespace="kube-system", labels=labels)
                await leases.create(Lease(metadata=meta, spec=spec))
            async with asyncio.TaskGroup() as group:
                task = group.create_task(identity(running).run())
                await running.clock.settle()
                first = await leases.get(server_id("host"), "kube-system")
                assert first.metadata.labels == {**LABELS, "kubernetes.io/hostname": "host"}
                assert first.spec.leaseDurationSeconds == 3600
                assert (first.spec.holderIdentity or "").startswith(f"{first.metadata.name}_")
                names = {lease.metadata.name for lease in (await leases.list()).items}
                assert names >= {"unrelated", first.metadata.name}
                assert not names & {"apiserver-dead", "apiserver-invalid"}
                await running.clock.advance(10)
                assert (await leases.get(first.metadata.name, "kube-system")).spec.renewTime != first.spec.renewTime
                task.cancel()

    asyncio.run(main())


def test_two_servers_on_one_host_share_the_lease() -> None:
    async def main() -> None:
        async with cluster() as running:
            await asyncio.gather(*(identity(running).renew() for _ in range(5)))
            assert await running.client.for_kind(Lease).get(server_id("host"), "kube-system")

    asyncio.run(main())
