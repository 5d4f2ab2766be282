"""Several clients against one: ``python benchmarks/clients.py --help``."""

import sys

# The clients import this file again: they must not load more than they need.
if __name__ == "__main__":
    from benchmark_utils.clients import main

    sys.exit(main())
