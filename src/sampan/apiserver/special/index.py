"""/: the list of all paths."""

from collections.abc import Sequence

from sampan.api.codec import json as json_codec
from sampan.api.scheme import Scheme
from sampan.apiserver.call import Call
from sampan.apiserver.media import pretty
from sampan.apiserver.negotiation import JSON
from sampan.apiserver.results import Answer, BytesAnswer, no_such_path
from sampan.apiserver.special.health import Health

_ALWAYS = ("/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")


class Index:
    def __init__(self, *, scheme: Scheme, health: Health, more: Sequence[str] = ()) -> None:
        """`more` are paths that not every server has."""
        self._scheme, self._health, self._more = scheme, health, more

    async def handle(self, call: Call) -> Answer:
        if call.path != "/":
            return no_such_path()
        return BytesAnswer(pretty(json_codec.encode({"paths": self._paths()})), JSON)

    def _paths(self) -> list[str]:
        paths = {*_ALWAYS, *self._more}
        for group in self._scheme.groups():
            start = f"/apis/{group}" if group else "/api"
            paths |= {start, *(f"{start}/{version}" for version in self._scheme.versions(group))}
        for name, checks in self._health.checks.items():
            paths |= {f"/{name}", *(f"/{name}/{check.name}" for check in checks)}
        return sorted(paths)
