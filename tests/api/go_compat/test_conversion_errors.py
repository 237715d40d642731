"""Messages for values of a wrong type in a strategic merge patch, as produced by the code of the real server."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.go_compat import conversion_errors
from sampan.api.schema import schemas
from sampan.api.types.core_v1 import Pod


def _wrap_in_path(path: str, value: Any) -> Any:
    for part in reversed(path.split(".")):
        value = [value] if part.isdigit() else {part: value}
    return value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata", "text", "cannot restore struct from: string"),
        ("metadata", [], "cannot restore struct from: slice"),
        ("metadata.name", 5, "cannot convert int64 to string"),
        ("metadata.name", 5.5, "unrecognized type: string"),
        ("metadata.name", True, "unrecognized type: string"),
        ("metadata.name", {}, "unrecognized type: string"),
        ("metadata.labels", 5, "cannot restore map from int64"),
        ("metadata.labels.a", 5, "cannot convert int64 to string"),
        ("metadata.generation", "text", "unrecognized type: int64"),
        ("metadata.generation", 5.5, "cannot convert float64 to int64"),
        ("metadata.creationTimestamp", 5, "json: cannot unmarshal number into Go value of type string"),
        ("spec.containers", "text", "cannot restore slice from string"),
        ("spec.containers", {}, "cannot restore slice from map"),
        ("spec.containers.0.imagePullPolicy", 5, "cannot convert int64 to v1.PullPolicy"),
        ("spec.containers.0.stdin", "true", "unrecognized type: bool"),
        ("spec.containers.0.stdin", 1, "unrecognized type: bool"),
        ("spec.containers.0.args", [5], "cannot convert int64 to string"),
        ("spec.priority", "5", "unrecognized type: int32"),
        (
            "spec.containers.0.livenessProbe.httpGet.port",
            True,
            "json: cannot unmarshal bool into Go value of type int32",
        ),
    ],
)
def test_message_for_a_value_of_the_wrong_type(path: str, value: Any, message: str) -> None:
    whole = _wrap_in_path(path, value)
    with pytest.raises(json.DecodeError) as raised:
        json.decode_value(whole, Pod)
    assert conversion_errors.conversion_error(whole, schemas.schema_of(Pod), str(raised.value)) == message
