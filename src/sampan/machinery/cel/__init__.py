"""The Common Expression Language: compile an expression once, evaluate it often (cel-go, `k8s.io/apiserver/pkg/cel`).

`Environment` is the public interface. `syntax` parses, `checker` infers types and estimates costs, `runtime` compiles
to closures and counts costs, `library` has the functions. `escapes` writes names that are not identifiers, and
`devices` has the selectors of devices.
"""

from sampan.machinery.cel.environment import Environment, Program, Result
from sampan.machinery.cel.errors import CelError, CompileError, CostLimitExceeded, EvaluationError

__all__ = ["CelError", "CompileError", "CostLimitExceeded", "Environment", "EvaluationError", "Program", "Result"]
