"""Warnings about files of one volume with the same path, or with one path below another."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection
from sampan.apiserver.registry.podspec.volumes.projected import is_token_source


class _VolumeFile(NamedTuple):
    path: str
    source: str
    """The kind and name of the source, empty if the volume has only one."""

    def __str__(self) -> str:
        quoted = gotext.quote(self.path)
        return f"{quoted} ({self.source})" if self.source else quoted


def overlap_warnings(volumes: Sequence[Volume]) -> Iterator[str]:
    pairs_left = limits.PAIR_WARNINGS
    for volume in volumes:
        if volume.projected is not None and is_token_source(volume.projected):
            continue
        for source_text, files in _files(volume):
            for file, other in islice(_find_overlaps(files), pairs_left):
                pairs_left -= 1
                yield f"volume {gotext.quote(volume.name)} ({source_text}): overlapping paths: {file} with {other}"
        if volume.projected is not None:
            for source in volume.projected.sources or ():
                if source == VolumeProjection():
                    yield f"volume {gotext.quote(volume.name)} (Projected) has no sources provided"


def _files(volume: Volume) -> Iterator[tuple[str, list[_VolumeFile]]]:
    if volume.configMap is not None:
        yield f"ConfigMap {gotext.quote(volume.configMap.name)}", _list_files(volume.configMap.items, "")
    if volume.secret is not None:
        yield f"Secret {gotext.quote(volume.secret.secretName)}", _list_files(volume.secret.items, "")
    if volume.downwardAPI is not None:
        yield "DownwardAPI", _list_files(volume.downwardAPI.items, "")
    if volume.projected is not None:
        yield "Projected", [file for source in volume.projected.sources or () for file in _list_projected_files(source)]


def _list_projected_files(source: VolumeProjection) -> list[_VolumeFile]:
    if source.configMap is not None and source.configMap.items:
        return _list_files(source.configMap.items, f"ConfigMap {gotext.quote(source.configMap.name)}")
    if source.secret is not None and source.secret.items:
        return _list_files(source.secret.items, f"Secret {gotext.quote(source.secret.name)}")
    if source.downwardAPI is not None and source.downwardAPI.items:
        return _list_files(source.downwardAPI.items, "DownwardAPI")
    if source.serviceAccountToken is not None:
        return [_VolumeFile(source.serviceAccountToken.path.rstrip("/"), "ServiceAccountToken")]
    return []


def _list_files(items: Sequence[KeyToPath | DownwardAPIVolumeFile], source: str) -> list[_VolumeFile]:
    return [_VolumeFile(item.path.rstrip("/"), source) for item in items]


class _PathNode:
    """A path of files in a volume, as a node of the tree of all paths."""

    __slots__ = ("below", "here", "parent")

    def __init__(self, parent: "_PathNode | None") -> None:
        self.parent = parent
        """The nearest path above this one that a file has."""
        self.here: list[int] = []
        """The indexes of the files so far with exactly this path."""
        self.below: list[int] = []
        """The indexes of the files so far with this path or one below it."""


def _find_overlaps(files: Sequence[_VolumeFile]) -> Iterator[tuple[_VolumeFile, _VolumeFile]]:
    """Yield each file with every earlier one at, above or below its path, in order.

    The cost is that of sorting the files plus that of the results, so a caller that stops early does not pay for the
    rest.
    """
    if len(files) < 2:
        return
    places = _path_nodes(files)
    for index, file in enumerate(files):
        place = places.get(file.path)
        if place is None:
            continue
        earlier = list(place.below)
        place.here.append(index)
        place.below.append(index)
        above = place.parent
        while above is not None:
            earlier += above.here
            above.below.append(index)
            above = above.parent
        for other in sorted(earlier):
            yield file, files[other]


def _path_nodes(files: Sequence[_VolumeFile]) -> dict[str, _PathNode]:
    """Return the tree nodes of all paths. Sorted with a trailing slash, a path is followed by those below it."""
    places: dict[str, _PathNode] = {}
    above: list[tuple[str, _PathNode]] = []
    for text in sorted({f"{file.path}/" for file in files if file.path}):
        while above and not text.startswith(above[-1][0]):
            above.pop()
        place = places[text[:-1]] = _PathNode(above[-1][1] if above else None)
        above.append((text, place))
    return places
