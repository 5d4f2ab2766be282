"""What to solve: problems with their primal and dual value."""
