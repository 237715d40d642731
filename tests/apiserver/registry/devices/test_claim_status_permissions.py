"""Who may change which part of a claim's status: as a table of rights and changes, and on a whole server."""

import asyncio
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.resource_v1 import AllocationResult, ResourceClaim, ResourceClaimStatus
from sampan.apiserver.authz import Attributes, UnionAuthorizer
from sampan.apiserver.authz.authorizer import AuthzDecision, AuthzResult
from sampan.apiserver.authz.rbac import RbacAuthorizer
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.registry.devices.claim_status import needs_of, node_of, validate_status_permissions
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo, service_account_user
from sampan.apiserver.server import ApiServer
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.authz.rbac_objects import binding, index_of, role, rule
from tests.eventually import eventually

GROUP, A, B = "resource.k8s.io", "a.example.com", "b.example.com"
NODE_NAME = "authentication.kubernetes.io/node-name"
JOE = UserInfo("joe", groups=(AUTHENTICATED,))
DRIVER = service_account_user("ns", "driver", extra={NODE_NAME: ("n",)})
STRANGER = service_account_user("ns", "driver", extra={NODE_NAME: ("other",)})
IMPOSTOR = UserInfo("joe", groups=(AUTHENTICATED,), extra={NODE_NAME: ("n",)})
SCHEDULER = UserInfo("system:kube-scheduler", groups=(AUTHENTICATED,))
CONTROLLER = service_account_user("kube-system", "resource-claim-controller")

# -- statuses --------------------------------------------------------------------------------------------------------


def on_node(*names: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def result(driver: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": driver, "pool": "p", "device": "d", **more}


def device(driver: str, **more: Any) -> dict[str, Any]:
    return {"driver": driver, "pool": "p", "device": "d", "conditions": None, **more}


ALLOCATION = {"devices": {"results": [result(A), result(B)]}, "nodeSelector": on_node("n")}
USER = {"resource": "pods", "name": "a", "uid": "u"}


def status(*devices: dict[str, Any], allocation: dict[str, Any] | None = ALLOCATION, **more: Any) -> dict[str, Any]:
    return {"allocation": allocation, "devices": list(devices), **more}


FREE, ALLOCATED = status(allocation=None), status()
CHANGES = {
    "nothing": (status(device(A), reservedFor=[USER]), status(device(A), reservedFor=[USER])),
    "allocate": (FREE, ALLOCATED),
    "deallocate": (status(device(A)), FREE),
    "reserve": (ALLOCATED, status(reservedFor=[USER])),
    "release": (status(reservedFor=[USER]), ALLOCATED),
    "tell of A": (ALLOCATED, status(device(A))),
    "tell of A elsewhere": (
        status(allocation={**ALLOCATION, "nodeSelector": None}),
        status(device(A), allocation={**ALLOCATION, "nodeSelector": None}),
    ),
    "tell more of A": (status(device(A)), status(device(A, data={"up": True}))),
    "number for truth": (status(device(A, data={"up": True})), status(device(A, data={"up": 1}))),
    "other order": (status(device(A, data={"a": 1, "b": 2})), status(device(A, data={"b": 2, "a": 1}))),
    "other share": (status(device(A)), status(device(A, shareID="s"))),
    "no more of A": (status(device(A), device(B)), status(device(B))),
    "tell of both": (ALLOCATED, status(device(B), device(A))),
    "allocate and tell of A": (FREE, status(device(A))),
}

# -- the table -------------------------------------------------------------------------------------------------------

NOTHING: tuple[str, ...] = ()
"""Rights are written VERB PART [NAME]; those in the namespace alone begin with ns/."""


def chain_of(user: UserInfo, rights: tuple[str, ...]) -> UnionAuthorizer:
    subject = "ServiceAccount ns/driver" if user.name.startswith("system:") else f"User {user.name}"
    objects: list[Any] = []
    for index, right in enumerate(rights):
        verb, part, *name = right.removeprefix("ns/").split()
        namespace, kind = ("ns", "Role") if right.startswith("ns/") else ("", "ClusterRole")
        granted = rule(verb, f"resourceclaims/{part}", groups=GROUP, names=" ".join(name))
        objects.append(role(f"r{index}", granted, namespace=namespace))
        objects.append(binding(f"r{index}", f"r{index}", subject, namespace=namespace, kind=kind))
    return UnionAuthorizer(RbacAuthorizer(index=index_of(*default_objects(), *objects)))


def request(user: UserInfo, verb: str = "update") -> Attributes:
    return Attributes(
        user,
        verb,
        group=GROUP,
        version="v1",
        resource="resourceclaims",
        subresource="status",
        namespace="ns",
        name="c",
    )


def refused(chain: UnionAuthorizer, attributes: Attributes, change: str) -> list[str]:
    old, new = (codec.from_value(value, ResourceClaimStatus) for value in CHANGES[change])
    return [str(fault) for fault in asyncio.run(validate_status_permissions(chain, needs_of(attributes, new, old)))]


def unbound(user: UserInfo, verb: str = "update") -> str:
    return (
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{verb}" permission: resourceclaims.{GROUP} is forbidden: '
        f'User "{user.name}" cannot {verb} resource "resourceclaims/binding" in API group "{GROUP}" '
        "at the cluster scope"
    )


def unspoken(user: UserInfo, driver: str, *verbs: str) -> str:
    return (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        f'verb="[{" ".join(verbs)}]" permission: resourceclaims.{GROUP} "{driver}" is forbidden: '
        f'User "{user.name}" cannot {verbs[0]} resource "resourceclaims/driver" in API group "{GROUP}" '
        'in the namespace "ns"'
    )


ANY, NEAR = "arbitrary-node:update", "associated-node:update"


@pytest.mark.parametrize(
    ("user", "rights", "change", "faults"),
    [
        (JOE, NOTHING, "nothing", []),
        *[(JOE, NOTHING, change, [unbound(JOE)]) for change in ("allocate", "deallocate", "reserve", "release")],
        *[
            (JOE, ("update binding",), change, [])
            for change in ("allocate", "deallocate", "reserve", "release", "nothing")
        ],
        (JOE, ("patch binding", f"{ANY} driver"), "allocate", [unbound(JOE)]),
        (JOE, ("ns/update binding",), "allocate", [unbound(JOE)]),
        (JOE, ("update binding c",), "allocate", [unbound(JOE)]),
        *[
            (JOE, ("update binding",), change, [unspoken(JOE, A, ANY)])
            for change in (
                "tell of A",
                "tell more of A",
                "number for truth",
                "other order",
                "other share",
                "no more of A",
            )
        ],
        (JOE, (f"{ANY} driver {A}",), "tell of A", []),
        (JOE, (f"ns/{ANY} driver",), "tell of A", []),
        (JOE, ("* binding", "* driver"), "allocate and tell of A", []),
        (JOE, (f"{NEAR} driver",), "tell of A", [unspoken(JOE, A, ANY)]),
        (JOE, (f"{ANY} driver {A}",), "tell of both", [unspoken(JOE, B, ANY)]),
        (JOE, NOTHING, "tell of both", [unspoken(JOE, A, ANY), unspoken(JOE, B, ANY)]),
        (JOE, NOTHING, "allocate and tell of A", [unbound(JOE), unspoken(JOE, A, ANY)]),
        (JOE, ("update binding",), "allocate and tell of A", [unspoken(JOE, A, ANY)]),
        (DRIVER, (f"{NEAR} driver {A}",), "tell of A", []),
        (DRIVER, (f"{ANY} driver",), "tell of A", []),
        (DRIVER, NOTHING, "tell of A", [unspoken(DRIVER, A, NEAR, ANY)]),
        (DRIVER, (f"{NEAR} driver",), "tell of A elsewhere", [unspoken(DRIVER, A, ANY)]),
        (DRIVER, (f"{NEAR} driver",), "reserve", [unbound(DRIVER)]),
        (STRANGER, (f"{NEAR} driver",), "tell of A", [unspoken(STRANGER, A, ANY)]),
        (IMPOSTOR, (f"{NEAR} driver",), "tell of A", [unspoken(IMPOSTOR, A, ANY)]),
        (SCHEDULER, NOTHING, "allocate", []),
        (CONTROLLER, NOTHING, "release", []),
        (CONTROLLER, NOTHING, "deallocate", []),
        (SCHEDULER, NOTHING, "tell of A", [unspoken(SCHEDULER, A, ANY)]),
    ],
)
def test_who_may_change_what(user: UserInfo, rights: tuple[str, ...], change: str, faults: list[str]) -> None:
    assert refused(chain_of(user, rights), request(user), change) == faults


def test_the_verb_is_that_of_the_request() -> None:
    chain = chain_of(JOE, ("update binding", f"{ANY} driver"))
    faults = [unbound(JOE, "patch"), unspoken(JOE, A, "arbitrary-node:patch")]
    assert refused(chain, request(JOE, "patch"), "allocate and tell of A") == faults


def test_the_reason_of_the_authorizer_is_reported() -> None:
    class Silent:
        def authorize(self, attributes: Attributes) -> AuthzResult:
            return AuthzResult(AuthzDecision.NO_OPINION, "nobody asked", "no answer")

    assert refused(UnionAuthorizer(Silent()), request(JOE), "reserve") == [f"{unbound(JOE)}: no answer: nobody asked"]


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (None, ""),
        (on_node("n"), "n"),
        (on_node("n", "m"), ""),
        ({"nodeSelectorTerms": [*on_node("n")["nodeSelectorTerms"], *on_node("m")["nodeSelectorTerms"]]}, ""),
        (
            {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                ]
            },
            "",
        ),
        (
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}]},
            "",
        ),
    ],
)
def test_the_node_of_an_allocation(selector: dict[str, Any] | None, node: str) -> None:
    assert node_of(codec.from_value({"devices": {}, "nodeSelector": selector}, AllocationResult)) == node


# -- a server --------------------------------------------------------------------------------------------------------


def claim() -> ResourceClaim:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    value = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    return codec.from_value(value, ResourceClaim)


STATUSES = rule("update patch", "resourceclaims/status", groups=GROUP)
"""What opens the door to all changes of statuses."""


async def test_a_server_checks_who_writes_the_status() -> None:
    clock = VirtualClock()
    config = ServerConfig(secure_port=0, advertise_address="192.0.2.1")
    async with (
        asyncio.timeout(60),
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=config, backend=backend, clock=clock) as server,
    ):

        def client(*user: UserInfo) -> Client:
            return Client(transport=server.loopback(*user), clock=clock, component="test")

        admin = client()
        for granted in (role("statuses", STATUSES), binding("statuses", "statuses", "User joe", f"User {NODE.name}")):
            await admin.of(type(granted)).create(granted)
        await _known(server)
        await admin.of(ResourceClaim).create(claim())
        await _work(admin, client(JOE), client(NODE), client(SCHEDULER))


NODE = UserInfo("system:node:n", groups=("system:nodes", AUTHENTICATED))


async def _known(server: ApiServer) -> None:
    await eventually(lambda: server.security.authorizer.is_allowed(request(JOE)))


async def _work(admin: Client, joe: Client, node: Client, scheduler: Client) -> None:
    unsaid = {"allocation": {"devices": {"results": [result(A)]}, "nodeSelector": on_node("n")}}
    status_fields = {"devices": [device(A)]}

    async def refusals(client: Client, new: dict[str, Any], how: str = "patch") -> list[str]:
        claims = client.of(ResourceClaim)
        new_status = codec.from_value(new, ResourceClaimStatus)
        try:
            if how == "patch":
                await claims.patch("c", {"status": new}, "default", subresource="status")
            else:
                present = claim()
                present.status = new_status
                await (claims.update_status(present) if how == "update" else _applied(claims, present))
        except errors.Invalid as refusal:
            return [f"{cause['field']}: {cause['message']}" for cause in refusal.status["details"]["causes"]]
        return []

    for how, verb in (("patch", "patch"), ("update", "update"), ("apply", "patch")):
        assert await refusals(joe, unsaid, how) == [unbound(JOE, verb)]
    reason = "can only get individual resources of this type"
    assert await refusals(node, unsaid) == [f"{unbound(NODE, 'patch')}: {reason}"]
    assert await refusals(scheduler, unsaid) == []
    in_default = unspoken(JOE, A, "arbitrary-node:patch").replace('"ns"', '"default"')
    assert await refusals(joe, status_fields) == [in_default]
    assert await refusals(joe, {}) == []
    assert await refusals(admin, status_fields) == []


async def _applied(claims: Any, applied: ResourceClaim) -> None:
    applied.apiVersion, applied.kind = f"{GROUP}/v1", "ResourceClaim"
    await claims.apply(applied, field_manager="m", subresource="status")
