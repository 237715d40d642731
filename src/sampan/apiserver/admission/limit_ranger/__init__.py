"""LimitRanger: what single containers, pods and claims of a namespace may ask for, and what they get unasked.

`defaults` fills in, `constraints` finds what is out of bounds (both pure), `plugin` is the shell.
"""

from sampan.apiserver.admission.limit_ranger.plugin import LimitRanger

__all__ = ["LimitRanger"]
