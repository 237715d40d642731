"""LimitRanger: defaults and limits for the resources of containers, pods and claims in a namespace.

`defaults` sets missing values and `constraints` finds violations (both pure); `plugin` is the admission plugin. The
counterpart is `plugin/pkg/admission/limitranger`.
"""

from sampan.apiserver.admission.limit_ranger.plugin import LimitRanger

__all__ = ["LimitRanger"]
