"""The Common Expression Language, behind a small seam: compile an expression once, evaluate it often.

`expression` is the seam; nothing else imports the library. `quantities` has the functions of Kubernetes
own library for quantities and versions.
"""

from sampan.machinery.cel.expression import CelError, Environment, Expression, Function

__all__ = ["CelError", "Environment", "Expression", "Function"]
