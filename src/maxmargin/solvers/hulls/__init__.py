"""Solvers of the distance of two hulls."""
