"""`python -m mizzen` is `mizzen`, for where its script is not on the path."""

import sys

from mizzen.cli import main

sys.exit(main())
