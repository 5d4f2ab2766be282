"""How estimators check, plan, solve and keep: what the public classes have in common."""
