"""What claims, volumes and storage classes mean to each other: shared by the binder, the scheduler and the kubelet.

Pure functions over API objects belong here: which class is meant, which volume suits a claim, how the two look when
they are bound, which claims a pod uses. Who acts on that, and when, does not.
"""
