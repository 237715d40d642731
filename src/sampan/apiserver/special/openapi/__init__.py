"""OpenAPI."""

from sampan.api.scheme import Scheme
from sampan.apiserver.call import Call
from sampan.apiserver.results import Answer, no_such_path


class OpenApi:
    def __init__(self, *, scheme: Scheme) -> None:
        self._scheme = scheme

    async def handle(self, call: Call) -> Answer:
        return no_such_path()
