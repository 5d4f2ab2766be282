"""What problems are made of: losses, penalties and kernels."""
