"""Files of one volume that lie on or under each other."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sampan.api import gotext
from sampan.api.types.core_v1 import DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection
from sampan.apiserver.registry.podspec.token_volume import is_token_source


class _File(NamedTuple):
    path: str
    source: str
    """Where it comes from, empty if that goes without saying."""

    def __str__(self) -> str:
        quoted = gotext.quote(self.path)
        return f"{quoted} ({self.source})" if self.source else quoted

    def overlaps(self, other: "_File") -> bool:
        if not self.path or not other.path:
            return False
        mine, theirs = f"{self.path}/", f"{other.path}/"
        return mine.startswith(theirs) or theirs.startswith(mine)


def overlap_warnings(volumes: Sequence[Volume]) -> Iterator[str]:
    for volume in volumes:
        if volume.projected is not None and is_token_source(volume.projected):
            continue
        for told, files in _files(volume):
            for text in _overlapping(files):
                yield f"volume {gotext.quote(volume.name)} ({told}): overlapping paths: {text}"
        if volume.projected is not None:
            for source in volume.projected.sources or ():
                if source == VolumeProjection():
                    yield f"volume {gotext.quote(volume.name)} (Projected) has no sources provided"


def _files(volume: Volume) -> Iterator[tuple[str, list[_File]]]:
    if volume.configMap is not None:
        yield f"ConfigMap {gotext.quote(volume.configMap.name)}", _of(volume.configMap.items, "")
    if volume.secret is not None:
        yield f"Secret {gotext.quote(volume.secret.secretName)}", _of(volume.secret.items, "")
    if volume.downwardAPI is not None:
        yield "DownwardAPI", _of(volume.downwardAPI.items, "")
    if volume.projected is not None:
        yield "Projected", [file for source in volume.projected.sources or () for file in _projected(source)]


def _projected(source: VolumeProjection) -> list[_File]:
    if source.configMap is not None and source.configMap.items:
        return _of(source.configMap.items, f"ConfigMap {gotext.quote(source.configMap.name)}")
    if source.secret is not None and source.secret.items:
        return _of(source.secret.items, f"Secret {gotext.quote(source.secret.name)}")
    if source.downwardAPI is not None and source.downwardAPI.items:
        return _of(source.downwardAPI.items, "DownwardAPI")
    if source.serviceAccountToken is not None:
        return [_File(source.serviceAccountToken.path.rstrip("/"), "ServiceAccountToken")]
    return []


def _of(items: Sequence[KeyToPath | DownwardAPIVolumeFile], source: str) -> list[_File]:
    return [_File(item.path.rstrip("/"), source) for item in items]


def _overlapping(files: Sequence[_File]) -> Iterator[str]:
    for index, file in enumerate(files):
        for other in files[:index]:
            if file.overlaps(other):
                yield f"{file} with {other}"
