"""What the kinds that make pods share: selectors of their pods, templates, numbers of a rolling update, counts in a
status, columns. What a pod itself may be is in `registry.podspec`; what a single kind says is in its own module.
"""
