"""Base64: cel-go's `encoders` extension. No environment of Kubernetes has it."""

from __future__ import annotations

import base64
import binascii

from sampan.machinery.cel.checker.declarations import Library, function
from sampan.machinery.cel.checker.estimate import traverse
from sampan.machinery.cel.checker.types import BYTES, STRING
from sampan.machinery.cel.errors import EvaluationError


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


def _traversal(data: str | bytes) -> int:
    return (len(data) * 2 + 9) // 10


LIBRARY = Library(
    {
        "base64.encode": [
            function(
                BYTES,
                result=STRING,
                run=lambda data: base64.b64encode(data).decode(),
                cost=_traversal,
                estimate=traverse(0.2),
            )
        ],
        "base64.decode": [function(STRING, result=BYTES, run=_decode, cost=_traversal, estimate=traverse(0.2))],
    }
)
