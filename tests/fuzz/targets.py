"""Every format that untrusted peers send, with the function that reads it and the errors that it documents.

A target reads any bytes: it returns, or raises one of its documented errors, at a bounded cost. `test_targets.py` feeds
changed samples to all of them in `make test`; `make soak` has atheris search for inputs (`test_soak.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.apiserver import body_fuzzing
from tests.fuzz import cluster_input, frame_input, image_input, netlink_input, request_input, user_input
from tests.input_cost import is_quick

MOST_BYTES = body_fuzzing.MOST_BYTES


@dataclass(frozen=True, slots=True)
class Target:
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    """The exceptions that the function documents."""
    samples: Sequence[bytes]
    """Accepted inputs, from which mutated inputs are derived."""

    def check(self, data: bytes) -> None:
        """Fail if the input raises anything that is not documented, or takes too much CPU time."""
        assert is_quick(partial(self._read, data))

    def _read(self, data: bytes) -> None:
        with contextlib.suppress(*self.errors):
            self.read(data)


def _bodies(media: str, *samples: bytes) -> Target:
    return Target(lambda data: body_fuzzing.read(data, media), (), samples)


TARGETS = {
    "json": _bodies(
        body_fuzzing.JSON,
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}',
        b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"},"spec":{"x":{"a":1}},"status":{"b":[1.5]}}',
    ),
    "yaml": _bodies(
        body_fuzzing.YAML,
        b"kind: ConfigMap\napiVersion: v1\nmetadata: &m {name: a}\ndata: {<<: *m, b: |\n  text\n}\n",
        b"kind: Pod\napiVersion: v1\nmetadata:\n  labels: {a: 'b', \"c\": !!str 1}\nspec:\n- ? x\n  : 0x1f\n",
    ),
    "protobuf": _bodies(
        body_fuzzing.PROTOBUF,
        b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x0a\x03\x0a\x01a",
        b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v",
    ),
    "patches": Target(user_input.read_patch, user_input.PATCH_ERRORS, user_input.PATCHES),
    "selectors": Target(user_input.read_selectors, (), user_input.SELECTORS),
    "cel": Target(user_input.read_expression, user_input.CEL_ERRORS, user_input.EXPRESSIONS),
    "jsonpath": Target(user_input.read_jsonpath, user_input.JSONPATH_ERRORS, user_input.JSONPATHS),
    "custom resource schemas": Target(user_input.read_schema, (), user_input.SCHEMAS),
    "kubeconfigs": Target(user_input.read_kubeconfig, user_input.KUBECONFIG_ERRORS, user_input.KUBECONFIGS),
    "kustomizations": Target(user_input.read_kustomization, user_input.KUSTOMIZE_ERRORS, user_input.KUSTOMIZATIONS),
    "image configurations": Target(image_input.read_image_documents, image_input.ERRORS, image_input.DOCUMENTS),
    "tar layers": Target(image_input.unpack_layer, image_input.ERRORS, image_input.LAYERS),
    "snapshots": Target(image_input.read_snapshot, image_input.SNAPSHOT_ERRORS, image_input.SNAPSHOTS),
    "websocket frames": Target(frame_input.read_websocket, frame_input.WEBSOCKET_ERRORS, frame_input.WEBSOCKETS),
    "spdy frames": Target(frame_input.read_spdy, frame_input.SPDY_ERRORS, frame_input.SPDY),
    "dns queries": Target(frame_input.answer_query, (), frame_input.QUERIES),
    "dns responses": Target(frame_input.read_dns_response, frame_input.DNS_ERRORS, frame_input.DNS_RESPONSES),
    "netlink datagrams": Target(netlink_input.read_datagram, netlink_input.ERRORS, netlink_input.DATAGRAMS),
    "http requests": Target(request_input.read_requests, request_input.ERRORS, request_input.REQUESTS),
    "http targets": Target(frame_input.read_request_target, frame_input.TARGET_ERRORS, frame_input.TARGETS),
    "proxied pages": Target(cluster_input.rewrite_page, (), cluster_input.PAGES),
    "pem": Target(cluster_input.read_pem, (), cluster_input.PEMS),
    "admission responses": Target(
        cluster_input.read_admission_response, cluster_input.REVIEW_ERRORS, cluster_input.ADMISSION_RESPONSES
    ),
    "conversion responses": Target(
        cluster_input.read_conversion_response, cluster_input.CONVERSION_ERRORS, cluster_input.CONVERSION_RESPONSES
    ),
    "aggregated documents": Target(
        cluster_input.read_aggregated_document, cluster_input.DOCUMENT_ERRORS, cluster_input.DOCUMENTS
    ),
}
