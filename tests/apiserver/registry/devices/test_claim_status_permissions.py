"""Permissions that changes of the status of a ResourceClaim require."""

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
from sampan.apiserver.registry.devices.claim_status import (
    list_required_permissions,
    node_of,
    validate_status_permissions,
)
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo, service_account_user
from sampan.apiserver.server import ApiServer
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.storage.memory import MemoryBackend
from tests.apiserver.authz.rbac_objects import binding, index_of, role, rule
from tests.eventually import eventually

GROUP, A, B = "resource.k8s.io", "a.example.com", "b.example.com"
NODE_NAME = "authentication.kubernetes.io/node-name"
JOE = UserInfo("joe", groups=(AUTHENTICATED,))
DRIVER = service_account_user("ns", "driver", extra={NODE_NAME: ("n",)})
DRIVER_ON_OTHER_NODE = service_account_user("ns", "driver", extra={NODE_NAME: ("other",)})
USER_WITH_NODE_NAME = UserInfo("joe", groups=(AUTHENTICATED,), extra={NODE_NAME: ("n",)})
SCHEDULER = UserInfo("system:kube-scheduler", groups=(AUTHENTICATED,))
CONTROLLER = service_account_user("kube-system", "resource-claim-controller")

# -- statuses --------------------------------------------------------------------------------------------------------


def node_selector(*names: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def result(driver: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": driver, "pool": "p", "device": "d", **more}


def device(driver: str, **more: Any) -> dict[str, Any]:
    return {"driver": driver, "pool": "p", "device": "d", "conditions": None, **more}


ALLOCATION = {"devices": {"results": [result(A), result(B)]}, "nodeSelector": node_selector("n")}
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
    "add device A": (ALLOCATED, status(device(A))),
    "add device A without node": (
        status(allocation={**ALLOCATION, "nodeSelector": None}),
        status(device(A), allocation={**ALLOCATION, "nodeSelector": None}),
    ),
    "set data of device A": (status(device(A)), status(device(A, data={"up": True}))),
    "change data from true to 1": (status(device(A, data={"up": True})), status(device(A, data={"up": 1}))),
    "reorder data": (status(device(A, data={"a": 1, "b": 2})), status(device(A, data={"b": 2, "a": 1}))),
    "change share ID": (status(device(A)), status(device(A, shareID="s"))),
    "remove device A": (status(device(A), device(B)), status(device(B))),
    "add both devices": (ALLOCATED, status(device(B), device(A))),
    "allocate and add device A": (FREE, status(device(A))),
}

# -- the table -------------------------------------------------------------------------------------------------------

NO_PERMISSIONS: tuple[str, ...] = ()
"""Permissions have the form VERB SUBRESOURCE [NAME]; the prefix ns/ limits a permission to the namespace."""


def authorizer_for(user: UserInfo, permissions: tuple[str, ...]) -> UnionAuthorizer:
    subject = "ServiceAccount ns/driver" if user.name.startswith("system:") else f"User {user.name}"
    objects: list[Any] = []
    for index, permission in enumerate(permissions):
        verb, part, *name = permission.removeprefix("ns/").split()
        namespace, kind = ("ns", "Role") if permission.startswith("ns/") else ("", "ClusterRole")
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


def status_errors(chain: UnionAuthorizer, attributes: Attributes, change: str) -> list[str]:
    old, new = (codec.from_value(value, ResourceClaimStatus) for value in CHANGES[change])
    return [
        str(fault)
        for fault in asyncio.run(validate_status_permissions(chain, list_required_permissions(attributes, new, old)))
    ]


def binding_error(user: UserInfo, verb: str = "update") -> str:
    return (
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{verb}" permission: resourceclaims.{GROUP} is forbidden: '
        f'User "{user.name}" cannot {verb} resource "resourceclaims/binding" in API group "{GROUP}" '
        "at the cluster scope"
    )


def driver_error(user: UserInfo, driver: str, *verbs: str) -> str:
    return (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        f'verb="[{" ".join(verbs)}]" permission: resourceclaims.{GROUP} "{driver}" is forbidden: '
        f'User "{user.name}" cannot {verbs[0]} resource "resourceclaims/driver" in API group "{GROUP}" '
        'in the namespace "ns"'
    )


ARBITRARY_NODE, ASSOCIATED_NODE = "arbitrary-node:update", "associated-node:update"


@pytest.mark.parametrize(
    ("user", "permissions", "change", "faults"),
    [
        (JOE, NO_PERMISSIONS, "nothing", []),
        *[
            (JOE, NO_PERMISSIONS, change, [binding_error(JOE)])
            for change in ("allocate", "deallocate", "reserve", "release")
        ],
        *[
            (JOE, ("update binding",), change, [])
            for change in ("allocate", "deallocate", "reserve", "release", "nothing")
        ],
        (JOE, ("patch binding", f"{ARBITRARY_NODE} driver"), "allocate", [binding_error(JOE)]),
        (JOE, ("ns/update binding",), "allocate", [binding_error(JOE)]),
        (JOE, ("update binding c",), "allocate", [binding_error(JOE)]),
        *[
            (JOE, ("update binding",), change, [driver_error(JOE, A, ARBITRARY_NODE)])
            for change in (
                "add device A",
                "set data of device A",
                "change data from true to 1",
                "reorder data",
                "change share ID",
                "remove device A",
            )
        ],
        (JOE, (f"{ARBITRARY_NODE} driver {A}",), "add device A", []),
        (JOE, (f"ns/{ARBITRARY_NODE} driver",), "add device A", []),
        (JOE, ("* binding", "* driver"), "allocate and add device A", []),
        (JOE, (f"{ASSOCIATED_NODE} driver",), "add device A", [driver_error(JOE, A, ARBITRARY_NODE)]),
        (JOE, (f"{ARBITRARY_NODE} driver {A}",), "add both devices", [driver_error(JOE, B, ARBITRARY_NODE)]),
        (
            JOE,
            NO_PERMISSIONS,
            "add both devices",
            [driver_error(JOE, A, ARBITRARY_NODE), driver_error(JOE, B, ARBITRARY_NODE)],
        ),
        (JOE, NO_PERMISSIONS, "allocate and add device A", [binding_error(JOE), driver_error(JOE, A, ARBITRARY_NODE)]),
        (JOE, ("update binding",), "allocate and add device A", [driver_error(JOE, A, ARBITRARY_NODE)]),
        (DRIVER, (f"{ASSOCIATED_NODE} driver {A}",), "add device A", []),
        (DRIVER, (f"{ARBITRARY_NODE} driver",), "add device A", []),
        (DRIVER, NO_PERMISSIONS, "add device A", [driver_error(DRIVER, A, ASSOCIATED_NODE, ARBITRARY_NODE)]),
        (
            DRIVER,
            (f"{ASSOCIATED_NODE} driver",),
            "add device A without node",
            [driver_error(DRIVER, A, ARBITRARY_NODE)],
        ),
        (DRIVER, (f"{ASSOCIATED_NODE} driver",), "reserve", [binding_error(DRIVER)]),
        (
            DRIVER_ON_OTHER_NODE,
            (f"{ASSOCIATED_NODE} driver",),
            "add device A",
            [driver_error(DRIVER_ON_OTHER_NODE, A, ARBITRARY_NODE)],
        ),
        (
            USER_WITH_NODE_NAME,
            (f"{ASSOCIATED_NODE} driver",),
            "add device A",
            [driver_error(USER_WITH_NODE_NAME, A, ARBITRARY_NODE)],
        ),
        (SCHEDULER, NO_PERMISSIONS, "allocate", []),
        (CONTROLLER, NO_PERMISSIONS, "release", []),
        (CONTROLLER, NO_PERMISSIONS, "deallocate", []),
        (SCHEDULER, NO_PERMISSIONS, "add device A", [driver_error(SCHEDULER, A, ARBITRARY_NODE)]),
    ],
)
def test_status_changes_require_binding_and_driver_permissions(
    user: UserInfo, permissions: tuple[str, ...], change: str, faults: list[str]
) -> None:
    assert status_errors(authorizer_for(user, permissions), request(user), change) == faults


def test_required_verb_follows_the_verb_of_the_request() -> None:
    chain = authorizer_for(JOE, ("update binding", f"{ARBITRARY_NODE} driver"))
    faults = [binding_error(JOE, "patch"), driver_error(JOE, A, "arbitrary-node:patch")]
    assert status_errors(chain, request(JOE, "patch"), "allocate and add device A") == faults


def test_the_reason_of_the_authorizer_is_reported() -> None:
    class Silent:
        name = "silent"

        def authorize(self, attributes: Attributes) -> AuthzResult:
            return AuthzResult(AuthzDecision.NO_OPINION, "nobody asked", "no answer")

    assert status_errors(UnionAuthorizer(Silent()), request(JOE), "reserve") == [
        f"{binding_error(JOE)}: no answer: silent: nobody asked"
    ]


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (None, ""),
        (node_selector("n"), "n"),
        (node_selector("n", "m"), ""),
        (
            {"nodeSelectorTerms": [*node_selector("n")["nodeSelectorTerms"], *node_selector("m")["nodeSelectorTerms"]]},
            "",
        ),
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
def test_node_of_allocation_requires_selector_of_a_single_node_name(selector: dict[str, Any] | None, node: str) -> None:
    assert node_of(codec.from_value({"devices": {}, "nodeSelector": selector}, AllocationResult)) == node


# -- a server --------------------------------------------------------------------------------------------------------


def claim() -> ResourceClaim:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    value = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    return codec.from_value(value, ResourceClaim)


STATUS_RULE = rule("update patch", "resourceclaims/status", groups=GROUP)
"""The permission that every write of the status subresource requires."""


async def test_server_enforces_permissions_for_status_writes() -> None:
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
        for granted in (
            role("statuses", STATUS_RULE),
            binding("statuses", "statuses", "User joe", f"User {NODE.name}"),
        ):
            await admin.for_kind(type(granted)).create(granted)
        await _wait_for_permissions(server)
        await admin.for_kind(ResourceClaim).create(claim())
        await _check_status_writes(admin, client(JOE), client(NODE), client(SCHEDULER))


NODE = UserInfo("system:node:n", groups=("system:nodes", AUTHENTICATED))


async def _wait_for_permissions(server: ApiServer) -> None:
    await eventually(lambda: server.security.authorizer.is_allowed(request(JOE)))


async def _check_status_writes(admin: Client, joe: Client, node: Client, scheduler: Client) -> None:
    allocated_status = {"allocation": {"devices": {"results": [result(A)]}, "nodeSelector": node_selector("n")}}
    device_status = {"devices": [device(A)]}

    async def write_errors(client: Client, new: dict[str, Any], method: str = "patch") -> list[str]:
        claims = client.for_kind(ResourceClaim)
        new_status = codec.from_value(new, ResourceClaimStatus)
        try:
            if method == "patch":
                await claims.patch("c", {"status": new}, "default", subresource="status")
            else:
                present = claim()
                present.status = new_status
                await (claims.update_status(present) if method == "update" else _apply(claims, present))
        except errors.Invalid as refusal:
            return [f"{cause['field']}: {cause['message']}" for cause in refusal.status["details"]["causes"]]
        return []

    for method, verb in (("patch", "patch"), ("update", "update"), ("apply", "patch")):
        assert await write_errors(joe, allocated_status, method) == [binding_error(JOE, verb)]
    reason = "node: can only get individual resources of this type"
    assert await write_errors(node, allocated_status) == [f"{binding_error(NODE, 'patch')}: {reason}"]
    assert await write_errors(scheduler, allocated_status) == []
    in_default = driver_error(JOE, A, "arbitrary-node:patch").replace('"ns"', '"default"')
    assert await write_errors(joe, device_status) == [in_default]
    assert await write_errors(joe, {}) == []
    assert await write_errors(admin, device_status) == []


async def _apply(claims: Any, applied: ResourceClaim) -> None:
    applied.apiVersion, applied.kind = f"{GROUP}/v1", "ResourceClaim"
    await claims.apply(applied, field_manager="m", subresource="status")
