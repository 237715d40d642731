"""Negotiation of the output format by the Accept header."""

import pytest

from sampan.apiserver.request import negotiation
from sampan.apiserver.request.negotiation import (
    DEFAULT_FORMAT,
    JSON,
    OBJECT_MEDIA_TYPES,
    PARTIAL,
    PROTOBUF,
    STREAM_MEDIA_TYPES,
    TABLE,
    YAML,
    OutputFormat,
)
from sampan.machinery import errors

TABLE_V1 = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE_V1},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("accept", "output_format"),
    [
        ("", DEFAULT_FORMAT),
        ("application/json", DEFAULT_FORMAT),
        ("*/*", DEFAULT_FORMAT),
        ("*", DEFAULT_FORMAT),
        ("application/*", DEFAULT_FORMAT),
        ("application/json;charset=utf-8", DEFAULT_FORMAT),
        ("application/json;stream=watch", DEFAULT_FORMAT),
        ("application/json;pretty=1", OutputFormat(JSON, is_pretty=True)),
        ("application/yaml", OutputFormat(YAML)),
        ("application/yaml;stream=watch, application/json", DEFAULT_FORMAT),
        ("application/vnd.kubernetes.protobuf,application/json", OutputFormat(PROTOBUF)),
        ("application/json;q=0.5, application/yaml;q=0.9", OutputFormat(YAML)),
        ("application/yaml;q=0, application/json", DEFAULT_FORMAT),
        ("application/yaml;q=much, application/json", DEFAULT_FORMAT),
        ("*/*;q=1, application/yaml", OutputFormat(YAML)),
        ("text/html, application/json", DEFAULT_FORMAT),
        (TABLE_V1, OutputFormat(JSON, TABLE)),
        (KUBECTL, OutputFormat(JSON, TABLE)),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", DEFAULT_FORMAT),
        ("application/json;g=meta.k8s.io;v=v1beta1;as=Table", OutputFormat(JSON, TABLE, "v1beta1")),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", DEFAULT_FORMAT),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            OutputFormat(PROTOBUF, PARTIAL),
        ),
    ],
)
def test_the_accept_header_selects_the_format(accept: str, output_format: OutputFormat) -> None:
    assert negotiation.negotiate(accept) == output_format


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/cbor",
        "application",
        "application/json/more",
        "application/json;stream=listen",
        "application/yaml;stream=watch",
        "application/json;as=Chair;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1",
        "application/json;v=v1;g=meta.k8s.io",
    ],
)
def test_an_unknown_media_type_is_not_acceptable(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable, match="only the following media types are accepted: application/json, "):
        negotiation.negotiate(accept)


@pytest.mark.parametrize(
    ("accept", "is_routed"),
    [
        ("", True),
        ("*/*", True),
        ("application/json;as=Chair", True),
        (" application/yaml ;q=0.1", True),
        ("text/html, */*;q=0.1", True),
        ("application/*", False),
        ("text/html", False),
        ("*", False),
    ],
)
def test_router_requires_a_full_media_type_or_the_full_wildcard(accept: str, is_routed: bool) -> None:
    if is_routed:
        negotiation.routes(accept, STREAM_MEDIA_TYPES)
        return
    with pytest.raises(errors.NotAcceptable) as caught:
        negotiation.routes(accept, STREAM_MEDIA_TYPES)
    assert str(caught.value) == f"406: Not Acceptable\n\nAvailable representations: {', '.join(STREAM_MEDIA_TYPES)}"


def test_protobuf_of_custom_objects_is_acceptable_only_for_metadata() -> None:
    assert negotiation.negotiate(f"{PROTOBUF},{JSON}", is_custom=True) == DEFAULT_FORMAT
    with pytest.raises(errors.NotAcceptable):
        negotiation.negotiate(PROTOBUF, is_custom=True)
    partial = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert negotiation.negotiate(partial, is_custom=True) == OutputFormat(PROTOBUF, PARTIAL)


@pytest.mark.parametrize(
    ("accept", "media"), [("", JSON), ("text/html", JSON), (TABLE_V1, JSON), (f"{TABLE_V1},{YAML}", YAML), (YAML, YAML)]
)
def test_errors_are_never_converted_to_tables(accept: str, media: str) -> None:
    assert negotiation.form_of_error(accept) == OutputFormat(media)


def test_plain_responses_are_not_converted_to_tables() -> None:
    assert negotiation.negotiate_plain(KUBECTL) == DEFAULT_FORMAT
    with pytest.raises(errors.NotAcceptable):
        negotiation.negotiate_plain(TABLE_V1, OBJECT_MEDIA_TYPES)


def test_yaml_cannot_be_streamed() -> None:
    negotiation.check_stream(OutputFormat(PROTOBUF))
    with pytest.raises(errors.NotAcceptable, match="application/json;stream=watch, application/vnd"):
        negotiation.check_stream(OutputFormat(YAML))


def test_only_the_start_of_a_long_header_is_read_and_nothing_is_kept() -> None:
    size = negotiation._best_formats.bytes + negotiation._are_routed.bytes + negotiation._clauses.bytes
    header = f"{negotiation.YAML}, " + "a/b, " * 20_000 + negotiation.JSON
    assert negotiation.negotiate(header).media == negotiation.YAML
    negotiation.routes(header, negotiation.OBJECT_MEDIA_TYPES)
    assert negotiation._best_formats.bytes + negotiation._are_routed.bytes + negotiation._clauses.bytes == size
