"""Solvers of problems of several classes at once."""
