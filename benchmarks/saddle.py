"""The distance of two hulls, hard margin and nu-SVM: ``python benchmarks/saddle.py --help``."""

import sys

# The processes that run the peers import this file again: they must not load more than they need.
if __name__ == "__main__":
    from benchmark_utils.saddle import main

    sys.exit(main())
