"""Controllers of credentials: certificates that are asked for, tokens of service accounts, tokens for joining."""
