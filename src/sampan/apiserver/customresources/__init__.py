"""Custom resources: from CustomResourceDefinitions to resources that are served.

`definition` decodes a definition and decides about its names, `resources` declares its resources with their behavior,
`controller` keeps the served resources, the conditions and the finalizer in step with the stored definitions. The
handling of custom objects (strategies, validation, conversion) is in `sampan.apiserver.registry.custom`. The
counterpart is `k8s.io/apiextensions-apiserver/pkg/controller` with `pkg/apiserver/customresource_handler.go`.
"""

from sampan.apiserver.customresources.controller import DefinitionController
from sampan.apiserver.registry.custom.metrics import CustomResourceMetrics

__all__ = ["CustomResourceMetrics", "DefinitionController"]
