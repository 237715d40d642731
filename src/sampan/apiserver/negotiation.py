"""Which form an answer takes: read from Accept once per distinct header, then remembered."""

from dataclasses import dataclass
from functools import lru_cache

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
OBJECT_FORMS = (JSON, YAML, PROTOBUF)
STREAM_FORMS = (*OBJECT_FORMS, f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_CONVERSIONS = frozenset(
    {
        ("Table", "meta.k8s.io", "v1"),
        ("Table", "meta.k8s.io", "v1beta1"),
        ("PartialObjectMetadata", "meta.k8s.io", "v1"),
        ("PartialObjectMetadata", "meta.k8s.io", "v1beta1"),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1"),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1beta1"),
    }
)


@dataclass(frozen=True, slots=True)
class Form:
    media: str = JSON
    as_kind: str = ""
    """Table, PartialObjectMetadata or PartialObjectMetadataList; empty for the object itself."""
    as_version: str = "v1"


PLAIN = Form()


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of an Accept header."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    def get(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """The parts of an Accept header, best first; of equal quality in the order they stand."""
    found = []
    for part in accept.split(","):
        media, *pairs = [piece.strip() for piece in part.split(";")]
        parameters = []
        quality = 1.0
        for pair in pairs:
            key, _, value = pair.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
            else:
                parameters.append((key.strip(), value.strip().strip('"')))
        if media:
            found.append(Clause(media.lower(), tuple(parameters), quality))
    return tuple(sorted(found, key=lambda clause: -clause.quality))


@lru_cache(maxsize=512)
def negotiate(accept: str, converts: bool) -> Form | str:
    """The form, or why there is none: "" where nothing offered is wanted, "conversion" where the media type is offered
    but none of the conversions asked for."""
    parts = clauses(accept) if accept else (Clause("*/*", (), 1.0),)
    refused = ""
    for clause in parts:
        media = JSON if clause.media == "*/*" else clause.media
        if media not in OBJECT_FORMS or clause.quality <= 0:
            continue
        as_kind = clause.get("as")
        if not as_kind:
            return Form(media)
        wanted = (as_kind, clause.get("g"), clause.get("v"))
        if converts and wanted in _CONVERSIONS and not (as_kind == "Table" and media == PROTOBUF):
            return Form(media, as_kind, wanted[2])
        refused = "conversion"
    return refused
