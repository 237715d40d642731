"""Content negotiation: from the Accept header to the form of the response, cached for each distinct header.

kube-apiserver negotiates twice, so there are two ways to be rejected. Its router requires one of the offered media
types by its full name (`routes`: 406 "Available representations"). The response writer then tries the clauses by
quality and takes the first that it supports, conversions included ("only the following media types").
"""

from dataclasses import dataclass

from sampan.api import limits
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery import errors

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
OBJECT_MEDIA_TYPES = (JSON, YAML, PROTOBUF)
CUSTOM_FORMS = (JSON, YAML)
"""The media types of objects without a protobuf message."""
WATCH_FORMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
STREAM_MEDIA_TYPES = (*OBJECT_MEDIA_TYPES, *WATCH_FORMS)
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
_NO_CONVERSIONS, _METADATA_CONVERSIONS, _ALL_CONVERSIONS = (), (PARTIAL, PARTIAL_LIST), (PARTIAL, PARTIAL_LIST, TABLE)
"""The kinds that a response can be converted to."""
_CACHE_SIZE, _MAX_ENTRY_BYTES = 128, 8 << 10


@dataclass(frozen=True, slots=True)
class OutputFormat:
    media: str = JSON
    as_kind: str = ""
    """Table, PartialObjectMetadata or PartialObjectMetadataList; empty for the object itself."""
    as_version: str = "v1"
    is_pretty: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion of the converted response."""
        return f"meta.k8s.io/{self.as_version}"


DEFAULT_FORMAT = OutputFormat()


@dataclass(frozen=True, slots=True)
class AcceptClause:
    """One clause of an Accept header."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float = 1.0

    def get(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")

    def takes(self, media: str) -> bool:
        if self.media in (media, "*/*"):
            return True
        return self.media.endswith("/*") and media.startswith(self.media[:-1])

    @property
    def conversion(self) -> tuple[str, str, str] | None:
        """The kind, group and version to convert to. Naming any of them requests a conversion."""
        keys = {key for key, _ in self.parameters} & {"as", "g", "v"}
        return (self.get("as"), self.get("g"), self.get("v")) if keys else None


def clauses(accept: str) -> tuple[AcceptClause, ...]:
    """Return the clauses of an Accept header by descending quality; of equal quality wildcards come last."""
    return _clauses[accept]


def _parse_clauses(accept: str) -> tuple[AcceptClause, ...]:
    parsed_clauses = [clause for part in _split(accept) if (clause := _clause(part)) is not None]
    return tuple(sorted(parsed_clauses, key=lambda clause: (-clause.quality, clause.media.endswith("/*"))))


_clauses = BoundedCache(_parse_clauses, max_entries=_CACHE_SIZE, max_entry_bytes=_MAX_ENTRY_BYTES)


def _split(accept: str) -> list[str]:
    """Return the clauses of a header; what exceeds its maximum length is ignored."""
    return accept[: limits.ACCEPT_CHARACTERS].split(",")


def _clause(part: str) -> AcceptClause | None:
    media, *pairs = [piece.strip() for piece in part.split(";")]
    media = "*/*" if media == "*" else media
    if media.count("/") != 1:
        return None
    quality, parameters = 1.0, []
    for pair in pairs:
        key, _, value = (text.strip() for text in pair.partition("="))
        if key == "q":
            quality = _quality(value)
        elif value and "=" not in value:
            parameters.append((key, value))
    return AcceptClause(media, tuple(parameters), quality)


def _quality(text: str) -> float:
    """Return the quality. A clause with quality 0 or an invalid one comes last, but is not ignored."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def routes(accept: str, offered: tuple[str, ...]) -> None:
    """Raise 406 unless the header names one of the offered media types."""
    if accept and not _are_routed[accept, offered]:
        raise errors.generic(406, f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}")


def _is_routed(header_and_offer: tuple[str, tuple[str, ...]]) -> bool:
    accept, offered = header_and_offer
    named = [part.partition(";")[0].strip() for part in _split(accept)]
    return any(media == "*/*" or media in offered for media in named)


_are_routed = BoundedCache(_is_routed, max_entries=_CACHE_SIZE, max_entry_bytes=_MAX_ENTRY_BYTES)


def negotiate(accept: str, *, is_custom: bool = False, has_tables: bool = True) -> OutputFormat:
    """Return the form of an object or list of a resource. Raise NotAcceptable if there is none; resources that are not
    stored have no tables."""
    if not accept or accept == JSON:
        return DEFAULT_FORMAT
    offered, kinds = (
        CUSTOM_FORMS if is_custom else OBJECT_MEDIA_TYPES,
        _ALL_CONVERSIONS if has_tables else _METADATA_CONVERSIONS,
    )
    output_format = _best_formats[accept, offered, kinds]
    if output_format is None:
        raise errors.not_acceptable(OBJECT_MEDIA_TYPES)
    return output_format


def negotiate_plain(accept: str, offered: tuple[str, ...] = OBJECT_MEDIA_TYPES) -> OutputFormat:
    """Return the form of a response that cannot be converted, such as discovery or a review."""
    output_format = _best_formats[accept, offered, _NO_CONVERSIONS] if accept else DEFAULT_FORMAT
    if output_format is None:
        raise errors.not_acceptable(offered)
    return output_format


def form_of_error(accept: str) -> OutputFormat:
    """Return the form of a Status; JSON if the client accepts no supported media type."""
    return (_best_formats[accept, OBJECT_MEDIA_TYPES, _NO_CONVERSIONS] if accept else None) or DEFAULT_FORMAT


def check_stream(output_format: OutputFormat) -> None:
    if output_format.media == YAML:
        raise errors.not_acceptable(WATCH_FORMS)


def _find_best_format(offer: tuple[str, tuple[str, ...], tuple[str, ...]]) -> OutputFormat | None:
    """Return the best supported form. `offered` limits only unconverted responses: PartialObjectMetadata has a protobuf
    form whatever the kind."""
    accept, offered, kinds = offer
    for clause in _clauses[accept]:
        for media in OBJECT_MEDIA_TYPES:
            if clause.takes(media) and (output_format := _form(clause, media, offered, kinds)) is not None:
                return output_format
    return None


_best_formats = BoundedCache(_find_best_format, max_entries=_CACHE_SIZE, max_entry_bytes=_MAX_ENTRY_BYTES)
"""The best supported forms by header, offered media types and kinds of conversion."""


def _form(clause: AcceptClause, media: str, offered: tuple[str, ...], kinds: tuple[str, ...]) -> OutputFormat | None:
    stream, is_pretty = clause.get("stream"), clause.get("pretty") == "1"
    if stream and (stream != "watch" or media == YAML):
        return None
    conversion = clause.conversion
    if conversion is None:
        return OutputFormat(media, is_pretty=is_pretty) if media in offered else None
    kind, group, version = conversion
    if kind not in kinds or group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if kind == TABLE and media == PROTOBUF:
        return None
    return OutputFormat(media, kind, version, is_pretty)
