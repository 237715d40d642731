import pytest

from sampan.api.field_errors import OMITTED, FieldError, FieldPath, join_messages

SPEC = FieldPath("spec")


def test_paths() -> None:
    container = SPEC / "containers"
    assert str((container[0] / "env")[2] / "name") == "spec.containers[0].env[2].name"
    assert str((FieldPath("metadata") / "labels")["example.com/key"]) == "metadata.labels[example.com/key]"
    assert str(FieldPath("spec", "template") / "spec") == "spec.template.spec"
    assert str(FieldPath() / "spec") == "spec"
    assert container == FieldPath("spec", "containers")
    assert len({container, FieldPath("spec", "containers")}) == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FieldError.required(SPEC / "image"), "spec.image: Required value"),
        (FieldError.required(SPEC, "must be set"), "spec: Required value: must be set"),
        (FieldError.invalid(SPEC, "x", "must be y"), 'spec: Invalid value: "x": must be y'),
        (FieldError.invalid(SPEC, 7, "too big"), "spec: Invalid value: 7: too big"),
        (FieldError.invalid(SPEC, 1e6, "too big"), "spec: Invalid value: 1e+06: too big"),
        (FieldError.invalid(SPEC, True, "not so"), "spec: Invalid value: true: not so"),
        (FieldError.invalid(SPEC, None, "missing"), "spec: Invalid value: null: missing"),
        (FieldError.invalid(SPEC, {"b": 1, "a": "<"}, "no"), 'spec: Invalid value: {"a":"\\u003c","b":1}: no'),
        (FieldError.invalid(SPEC, OMITTED, "hidden"), "spec: Invalid value: hidden"),
        (FieldError.type_invalid(SPEC, "x", "must be int"), 'spec: Invalid value: "x": must be int'),
        (FieldError.not_supported(SPEC, "x", ["a", "b"]), 'spec: Unsupported value: "x": supported values: "a", "b"'),
        (FieldError.not_supported(SPEC, "x"), 'spec: Unsupported value: "x"'),
        (FieldError.duplicate(SPEC, "x"), 'spec: Duplicate value: "x"'),
        (FieldError.forbidden(SPEC, "not now"), "spec: Forbidden: not now"),
        (FieldError.not_found(SPEC, "v"), 'spec: Not found: "v"'),
        (FieldError.too_long(SPEC, 63), "spec: Too long: may not be more than 63 bytes"),
        (FieldError.too_long(SPEC, 1), "spec: Too long: may not be more than 1 byte"),
        (FieldError.too_long(SPEC, -1), "spec: Too long: value is too long"),
        (FieldError.too_many(SPEC, 3, 1), "spec: Too many: 3: must have at most 1 item"),
        (FieldError.too_many(SPEC, -1, 2), "spec: Too many: must have at most 2 items"),
        (FieldError.internal(SPEC, "oops"), "spec: Internal error: oops"),
    ],
)
def test_messages(error: FieldError, message: str) -> None:
    assert str(error) == message
    assert error.cause() == {"reason": error.type, "message": error.body, "field": error.field}


def test_joined_messages_have_no_duplicates() -> None:
    assert join_messages(["a"]) == join_messages(["a", "a"]) == "a"
    assert join_messages(["a", "b", "a"]) == "[a, b]"
