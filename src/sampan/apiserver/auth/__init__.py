"""Who is calling: one authenticator per file, tried in order."""
