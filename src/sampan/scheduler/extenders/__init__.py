"""HTTP extenders: servers that have a say in filtering, scoring, preemption and binding.

`extender_config` reads what configuration files say of them, `messages` is what goes over the wire, `http_extender`
asks one, `chain` asks all of them in the course of a decision.
"""
