"""What any daemon needs and Kubernetes does not define. Every package may import it, and it imports none.

`bounded_cache` has the one cache for results that depend on user input. `exception_groups` finds the exceptions inside
a group.
"""
