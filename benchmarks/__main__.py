"""`python -m benchmarks`: everything, as `make bench` runs it."""

import sys

from benchmarks.run import main

sys.exit(main())
