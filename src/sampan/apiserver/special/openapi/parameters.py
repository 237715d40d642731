"""The parameters of requests, grouped by the options they belong to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    description: str
    place: str = "query"


def _of(type: str, **descriptions: str) -> list[Parameter]:
    return [Parameter(name, type, description) for name, description in descriptions.items()]


def _sorted(*groups: list[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted((parameter for group in groups for parameter in group), key=lambda parameter: parameter.name))


NAME = Parameter("name", "string", "the object's name", "path")
NAMESPACE = Parameter("namespace", "string", "the namespace of the objects", "path")
PATH_BEYOND = Parameter("path", "string", "the path beyond the proxy", "path")
PRETTY = Parameter("pretty", "string", "If 'true', the answer is indented for people to read.")

_DRY_RUN = _of("string", dryRun="With 'All' every check is made and nothing is stored.")
_WRITE = [
    *_DRY_RUN,
    *_of(
        "string",
        fieldManager="The name under which the writer's fields are tracked, at most 128 printable characters.",
        fieldValidation="What becomes of unknown and repeated fields: Ignore, Warn (the default) or Strict.",
    ),
]
_SELECT = [
    *_of(
        "string",
        **{"continue": "The token of the page before, to go on where it ended."},
        fieldSelector="Only objects whose fields are as this selector wants them.",
        labelSelector="Only objects whose labels are as this selector wants them.",
        resourceVersion="The version of the data that is wanted.",
        resourceVersionMatch="How resourceVersion is meant: Exact or NotOlderThan.",
        shardSelector="Only objects that fall into this shard.",
    ),
    *_of("integer", limit="The most objects on a page.", timeoutSeconds="How long the call may last."),
    *_of("boolean", sendInitialEvents="Whether a watch begins with all objects that there are."),
]
_WATCH = _of(
    "boolean",
    allowWatchBookmarks="Whether a watch may send bookmarks, which only tell a version.",
    watch="Send changes as they happen instead of a list.",
)
_DELETE = [
    *_DRY_RUN,
    *_of("integer", gracePeriodSeconds="How long the object may take to end; 0 removes it at once."),
    *_of(
        "boolean",
        ignoreStoreReadErrorWithClusterBreakingPotential="Remove even what can no longer be read from the store.",
        orphanDependents="Whether dependents are left alone; propagationPolicy is the newer way to say it.",
    ),
    *_of("string", propagationPolicy="What happens to dependents: Orphan, Background or Foreground."),
]

WRITE = _sorted(_WRITE)
PATCH = _sorted(_WRITE, _of("boolean", force="Take over fields that others own; for apply only."))
LIST = _sorted(_SELECT, _WATCH)
DELETE = _sorted(_DELETE)
DELETE_COLLECTION = _sorted(_SELECT, _DELETE)

_STREAMS = _of(
    "boolean",
    stderr="Whether standard error is sent.",
    stdin="Whether standard input is taken.",
    stdout="Whether standard output is sent.",
    tty="Whether a terminal is made.",
)
_CONTAINER = _of("string", container="The container; may be left out where there is one.")
CONNECT: dict[str, tuple[Parameter, ...]] = {
    "attach": _sorted(_STREAMS, _CONTAINER),
    "exec": _sorted(_STREAMS, _CONTAINER, _of("string", command="The command with its arguments, repeated for each.")),
    "portforward": _sorted(_of("integer", ports="The ports, where WebSocket is used.")),
    "proxy": _sorted(_of("string", path="The path below the object's address.")),
}
"""The parameters by subresource."""
LOG = _sorted(
    _CONTAINER,
    _of(
        "boolean",
        follow="Go on as the log grows.",
        insecureSkipTLSVerifyBackend="Do not check the certificate of the node.",
        previous="The log of the container that ran before.",
        timestamps="A time before each line.",
    ),
    _of(
        "integer",
        limitBytes="The most bytes.",
        sinceSeconds="Only lines that are no older.",
        tailLines="Only that many lines from the end.",
    ),
    _of("string", stream="All, Stdout or Stderr."),
)
