"""/version: the Kubernetes version and the platform."""

import platform
from functools import cache

from sampan import __version__
from sampan.api.codec import json as json_codec
from sampan.api.types.version import Info
from sampan.apiserver import negotiation
from sampan.apiserver.call import Call
from sampan.apiserver.media import pretty
from sampan.apiserver.negotiation import JSON
from sampan.apiserver.results import Answer, BytesAnswer, no_such_path
from sampan.machinery import errors

MAJOR, MINOR, GIT_VERSION = "1", "36", "v1.36.4"
"""The version of the API, which clients compare with their own."""


async def version(call: Call) -> Answer:
    if call.path.strip("/") != "version":
        return no_such_path()
    if call.method != "GET":
        raise errors.generic(405)
    negotiation.routes(call.headers.get("Accept", ""), (JSON,))
    return BytesAnswer(pretty(json_codec.encode(info())), JSON)


@cache
def info() -> Info:
    return Info(
        major=MAJOR,
        minor=MINOR,
        emulationMajor=MAJOR,
        emulationMinor=MINOR,
        minCompatibilityMajor=MAJOR,
        minCompatibilityMinor=str(int(MINOR) - 1),
        gitVersion=GIT_VERSION,
        gitCommit=f"sampan-{__version__}",
        gitTreeState="clean",
        buildDate="1970-01-01T00:00:00Z",
        goVersion=f"python{platform.python_version()}",
        compiler=platform.python_implementation().lower(),
        platform=f"{platform.system().lower()}/{_machine()}",
    )


def _machine() -> str:
    """Return the architecture as Go names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
