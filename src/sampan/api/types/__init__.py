"""The Kubernetes API as Python types: one module per group and version, fields spelled as on the wire.

Everything here but `base` is generated: `python tools/apigen/generate.py` writes it from the published schemas, and a
test checks that it is fresh. Nothing is imported from here at large: a module is loaded when its types are asked for
(`sampan.api.scheme`), or by name:

    from sampan.api.types import core_v1
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="a"))

Fields say by their default when they are printed: `base` has the rules. A wire name that Python cannot spell has an
underscore after it (`continue_`, `from_`) or in place of its dashes; `$` is dropped.
"""
