"""What objects use of a namespace's quotas: pure functions, for the API server that charges and the controller that
counts anew.

`usage` measures objects, `scopes` tells which of them a quota is about, `evaluators` brings both together per resource.
"""

from sampan.machinery.quota.evaluators import IGNORED, Evaluator, count_name, evaluator_of
from sampan.machinery.quota.scopes import is_in_scope, terms_of

__all__ = ["IGNORED", "Evaluator", "count_name", "evaluator_of", "is_in_scope", "terms_of"]
