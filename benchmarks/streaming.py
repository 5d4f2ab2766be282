"""One pass over the data against reading it once: ``python benchmarks/streaming.py --help``."""

import sys

if __name__ == "__main__":
    from benchmark_utils.streaming import main

    sys.exit(main())
