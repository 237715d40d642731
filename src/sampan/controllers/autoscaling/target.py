"""The scale subresource of an autoscaler's target, whatever its kind."""

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.types.autoscaling_v1 import Scale
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.codecs import ObjectCodec, path_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.client.transport import Request

_SCALE = ObjectCodec(GroupVersionKind(group="autoscaling", version="v1", kind="Scale"), Scale)
_JSON = {"Accept": "application/json", "Content-Type": "application/json"}
_ATTEMPTS = 5


class UnknownKind(Exception):
    """No served API has such a kind."""


class ScaleKinds:
    """Maps kinds to resources by discovery. The cached mapping is refreshed only when a kind is missing from it."""

    def __init__(self, client: Client) -> None:
        self._discovery = Discovery(client)
        self._known: dict[tuple[str, str], Resource] = {}

    async def resource(self, group: str, kind: str) -> Resource:
        if (group, kind) not in self._known:
            resources, _ = await self._discovery.discover_preferred()
            self._known = {(row.group, row.kind): row for row in resources}
        try:
            return self._known[group, kind]
        except KeyError:
            description = f"{gotext.quote(kind)} in group {gotext.quote(group)}"
            raise UnknownKind(f"no matches for kind {description}") from None


class ScaleTarget:
    """The scale subresource of one object."""

    def __init__(self, *, client: Client, resource: Resource, namespace: str, name: str) -> None:
        self._client, self._path = client, path_of(resource, namespace, name, "scale")

    async def scale(self) -> Scale:
        request = Request(method="GET", path=self._path, headers={"Accept": "application/json"})
        scale: Scale = (await self._client.send(request)).object(_SCALE)
        return scale

    async def set_replicas(self, scale: Scale, replicas: int) -> None:
        """Set the replicas, retrying on conflict with a fresh copy of the scale."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._put(scale, replicas)
            except errors.Conflict:
                scale = await self.scale()
        await self._put(scale, replicas)

    async def _put(self, scale: Scale, replicas: int) -> None:
        scale.spec.replicas = replicas
        await self._client.send(Request(method="PUT", path=self._path, headers=_JSON, body=_SCALE.encode(scale)))
