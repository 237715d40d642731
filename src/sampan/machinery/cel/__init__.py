"""The Common Expression Language: compile an expression once, evaluate it often (cel-go, `k8s.io/apiserver/pkg/cel`).

`Environment` is the public interface. `syntax` parses, `checker` infers types and estimates costs, `runtime` compiles
to closures and counts costs, `library` has the functions. `escapes` escapes names that are not identifiers, and
`devices` has the device selectors.
"""

from typing import TYPE_CHECKING, Any

from sampan.machinery.cel.errors import CelError, CompileError, CostLimitExceeded, EvaluationError

if TYPE_CHECKING:
    from sampan.machinery.cel.environment import Environment, EvaluationResult, Program


def __getattr__(name: str) -> Any:
    """Import the engine on first use: most clusters start without an expression."""
    if name in ("Environment", "EvaluationResult", "Program"):
        from sampan.machinery.cel import environment

        return getattr(environment, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CelError",
    "CompileError",
    "CostLimitExceeded",
    "Environment",
    "EvaluationError",
    "EvaluationResult",
    "Program",
]
