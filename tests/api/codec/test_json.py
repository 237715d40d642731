"""The JSON codec: fast and careful decoding agree, and malformed bodies raise only decoding errors."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import careful, parsed, syntax
from sampan.api.codec import json as codec
from sampan.api.schema import schemas
from sampan.api.types import apiextensions_v1, apps_v1, core_v1, meta_v1

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


class JsonText:
    """A JSON text, and whether some key in it is repeated."""

    def __init__(self, text: str, repeats: bool) -> None:
        self.text, self.repeats = text, repeats

    def __repr__(self) -> str:
        return f"{self.text} repeats={self.repeats}"


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 0) -> JsonText:
    """Draw JSON texts with whitespace anywhere, escapes of every kind, and sometimes a repeated key."""
    blank = draw(st.sampled_from(["", " ", "\n", "\t"]))
    if depth > 3 or draw(st.booleans()):
        leaf = draw(
            st.sampled_from(["1", "null", "true", '"x"', '"\\u0022:"', '"\\u003a"', '"a\\":b"', '"{\\"a\\":1}"'])
        )
        return JsonText(f"{blank}{leaf}{blank}", False)
    inner = draw(st.lists(json_texts(depth + 1), max_size=3))
    repeats = any(part.repeats for part in inner)
    if draw(st.booleans()):
        return JsonText("[" + ",".join(part.text for part in inner) + "]", repeats)
    keys = [draw(st.sampled_from(["a", "b", "c", "d e", "\\u0022", "f:"])) for _ in inner]
    members = (f'{blank}"{key}"{blank}:{part.text}' for key, part in zip(keys, inner, strict=True))
    return JsonText("{" + ",".join(members) + "}", repeats or len(set(keys)) < len(keys))


@given(json_texts())
def test_duplicate_keys_are_always_detected(text: JsonText) -> None:
    suspected = parsed.may_have_duplicates(text.text.encode())
    assert suspected or not text.repeats
    assert bool(codec.decode_any(text.text.encode())[1]) == text.repeats


@given(JSON)
def test_texts_without_duplicate_keys_are_not_suspected(value: Any) -> None:
    assert not parsed.may_have_duplicates(json.dumps(value, ensure_ascii=False).encode())


@given(st.binary(max_size=30) | st.text('{}[]",:\\ntu0e-.x \n', max_size=30).map(str.encode))
def test_syntax_errors_are_reported_for_exactly_the_invalid_texts(body: bytes) -> None:
    try:
        json.loads(body.decode("utf-8", "replace"), parse_constant=_reject)
    except ValueError:
        assert syntax.error_message(body) is not None
        with pytest.raises(codec.JsonSyntaxError):
            codec.decode_any(body)
    else:
        assert syntax.error_message(body) is None


def _reject(text: str) -> Any:
    raise ValueError(text)


POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.5"}}, "ports": [{"containerPort": 80}]}
        ],
        "securityContext": {"runAsUser": 0},
    },
    "status": {"startTime": "2026-01-02T03:04:05+01:00"},
}


def test_fast_and_careful_decoding_agree() -> None:
    body = json.dumps(POD).encode()
    fast, strict = codec.decode(body, core_v1.Pod)
    careful_value, faults = careful.decode(parsed.parse(body), schemas.schema_of(core_v1.Pod))
    assert (strict, faults) == ([], [])
    assert codec.from_value(careful_value, core_v1.Pod) == fast
    assert fast.spec.containers is not None
    assert fast.spec.containers[0].resources.requests == {"cpu": "500m"}
    assert fast.status.startTime == "2026-01-02T02:04:05Z"


NULLS = [
    (core_v1.Pod, {"metadata": None, "spec": {"containers": None, "nodeName": None, "hostNetwork": None}}),
    (core_v1.Pod, {"spec": {"containers": [None], "tolerations": [None], "overhead": {"cpu": None}}}),
    (core_v1.ConfigMap, {"data": {"a": None}, "immutable": None}),
    (core_v1.Service, {"spec": {"ports": [{"targetPort": None}], "clusterIPs": [None]}, "status": None}),
    (apps_v1.Deployment, {"spec": {"replicas": None, "selector": None, "template": None, "strategy": None}}),
]


@pytest.mark.parametrize(("kind", "value"), NULLS, ids=lambda v: v.__name__ if isinstance(v, type) else "")
def test_nulls_are_accepted_and_round_trip(kind: type[core_v1.Pod], value: Any) -> None:
    obj, strict = codec.decode(json.dumps(value).encode(), kind)
    assert strict == []
    again, _ = codec.decode(codec.encode(obj), kind)
    assert again == obj


def test_null_elements_become_zero_values() -> None:
    pod, _ = codec.decode(b'{"spec":{"containers":[null],"overhead":{"cpu":null}}}', core_v1.Pod)
    assert pod.spec.containers == [core_v1.Container()]
    assert pod.spec.overhead == {"cpu": "0"}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"resources": {"limits": {"cpu": 1}}}, {"limits": {"cpu": "1"}}),
        ({"resources": {}}, {}),
    ],
)
def test_containers_always_encode_resources(body: Any, shown: Any) -> None:
    pod, _ = codec.decode(json.dumps({"spec": {"containers": [body]}}).encode(), core_v1.Pod)
    assert codec.to_value(pod)["spec"]["containers"][0]["resources"] == shown


def test_empty_fields_that_are_encoded() -> None:
    assert codec.to_value(core_v1.Service()) == {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {},
        "spec": {},
        "status": {"loadBalancer": {}},
    }
    assert codec.to_value(meta_v1.Status(status="Failure", code=404)) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": 404,
    }
    assert codec.to_value(meta_v1.DeleteOptions()) == {}
    assert codec.to_value(core_v1.PodCondition(type="Ready", status="True")) == {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }


def test_quantities_are_canonicalized_in_their_format() -> None:
    body = b'{"spec":{"overhead":{"a":1e3,"b":"1e3","c":0.1,"d":2,"e":"1.5Gi"}}}'
    pod, _ = codec.decode(body, core_v1.Pod)
    assert pod.spec.overhead == {"a": "1e3", "b": "1e3", "c": "100m", "d": "2", "e": "1536Mi"}


def test_duplicate_objects_are_merged() -> None:
    body = b'{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"namespace":"b","labels":{"y":"2"}}}'
    pod, strict = codec.decode(body, core_v1.Pod)
    assert strict == ['duplicate field "metadata"']
    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.labels) == ("a", "b", {"x": "1", "y": "2"})


def test_strict_errors_are_limited_to_100() -> None:
    body = json.dumps({f"x{i}": 1 for i in range(300)}).encode()
    assert len(codec.decode(body, core_v1.Pod)[1]) == 100


def test_recursive_json_schema_props() -> None:
    value = {
        "properties": {"a": {"items": {"type": "string"}}, "b": {"additionalProperties": True}},
        "default": {"x": 1},
    }
    props, strict = codec.decode(json.dumps(value).encode(), apiextensions_v1.JSONSchemaProps)
    assert strict == []
    assert codec.to_value(props) == value
    invalid = {"items": {"bogus": 1, "type": "string"}, "nope": 1}
    props, strict = codec.decode(json.dumps(invalid).encode(), apiextensions_v1.JSONSchemaProps)
    assert strict == ['unknown field "nope"']  # a schema inside a schema has a decoder of its own
    assert codec.to_value(props) == {"items": {"type": "string"}}


@pytest.mark.parametrize("depth", [150, 900, 3_000, 12_000, 200_000])
@pytest.mark.parametrize("pattern", ['{"a":', "["], ids=["objects", "lists"])
def test_deep_nesting_raises_only_decode_errors(depth: int, pattern: str) -> None:
    closing = "}" if pattern != "[" else "]"
    deep = pattern * depth + "1" + closing * depth
    for body, kind in ((deep, core_v1.Pod), (f'{{"data":{deep}}}', apps_v1.ControllerRevision)):
        try:
            obj, _ = codec.decode(body.encode(), kind)
            codec.encode(obj)
        except codec.DecodeError:
            pass
    if depth <= codec.MAX_DEPTH:
        codec.decode_any(deep.encode())
    else:
        with pytest.raises(codec.JsonSyntaxError, match="exceeded max depth"):
            codec.decode_any(deep.encode())


def test_decode_any() -> None:
    value, repeated = codec.decode_any(b'{"a":1.0,"b":2.5,"c":1e3,"d":{"e":1,"e":2}}')
    assert json.dumps(value) == '{"a": 1, "b": 2.5, "c": 1000, "d": {"e": 2}}'
    assert repeated == ['duplicate field "d.e"']


def test_items_of_lists_have_no_kind_and_api_version() -> None:
    pods = core_v1.PodList(items=[core_v1.Pod(metadata=meta_v1.ObjectMeta(name="a"))])
    assert codec.encode(pods).startswith(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}'
    )
    again = codec.read(codec.encode(pods), core_v1.PodList)
    assert again.items is not None
    assert again.items[0].kind == "Pod"
    assert codec.to_value(core_v1.PodList(items=[])) == {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {},
        "items": [],
    }


def test_read_drops_unknown_fields() -> None:
    pod = codec.read(b'{"metadata":{"name":"a","new":1},"spec":{"nodeName":"n","newer":{}}}', core_v1.Pod)
    assert (pod.metadata.name, pod.spec.nodeName) == ("a", "n")


@pytest.mark.parametrize(
    ("body", "kind"), [(b'{"kind":"Pod","apiVersion":"v1"}', ("v1", "Pod")), (b"{}", ("", "")), (b"null", ("", ""))]
)
def test_read_kind(body: bytes, kind: tuple[str, str]) -> None:
    assert codec.read_kind(body) == kind
