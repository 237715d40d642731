"""Controllers about nodes: whether they live, what that means for their pods, their ranges, routes and machines."""
