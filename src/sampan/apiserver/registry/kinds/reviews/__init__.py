"""Reviews: questions about users that are posted like objects, answered, and not kept."""
