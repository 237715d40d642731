"""disruption-controller, which computes how many pods of each PodDisruptionBudget may be disrupted.

The counterpart is `pkg/controller/disruption`. `budgets` decides (pure), `scales` determines the expected number of
pods, and `disruption` is the controller.
"""
