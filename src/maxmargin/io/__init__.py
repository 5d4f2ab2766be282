"""Data and model files."""
