"""Numerical methods that know nothing of problems: selection, projection, factors, sampling."""
