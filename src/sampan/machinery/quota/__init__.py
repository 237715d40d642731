"""Quota usage of objects, as in `pkg/quota/v1`: pure functions, for the admission plug-in that charges usage and the
controller that recalculates it.

`scopes` decides which objects a quota applies to, and `evaluators` measures them per resource.
"""

from sampan.machinery.quota.evaluators import IGNORED, Evaluator, count_name, evaluator_of
from sampan.machinery.quota.scopes import is_in_scope, terms_of

__all__ = ["IGNORED", "Evaluator", "count_name", "evaluator_of", "is_in_scope", "terms_of"]
