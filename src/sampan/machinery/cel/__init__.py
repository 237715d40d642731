"""The Common Expression Language, behind a small seam: compile an expression once, evaluate it often.

`expression` is the seam; it and `shapes`, the types that expressions are checked against, are all that imports the
library. `syntax` reads what was compiled, `messages` what it says. `library` has functions that Kubernetes adds
(`quantities`, `lists`, `addresses`), `escapes` its names for what is no identifier, `devices` the selectors of devices.
"""

from sampan.machinery.cel.expression import CelError, Environment, Expression, Function

__all__ = ["CelError", "Environment", "Expression", "Function"]
