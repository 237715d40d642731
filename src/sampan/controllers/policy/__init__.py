"""disruption-controller, which computes how many pods of each PodDisruptionBudget may be disrupted.

The counterpart is `pkg/controller/disruption`. `budgets` decides (pure), and `disruption` is the controller, which
determines the expected number of pods from the scales of their owners.
"""
