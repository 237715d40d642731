"""Controllers about services: which pods stand behind each, load balancers, and ranges of addresses."""
