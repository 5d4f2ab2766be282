"""The one loop, and what it needs: certificates, solutions, interrupts, progress, checkpoints."""
