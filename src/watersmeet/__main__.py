"""`python -m watersmeet`: the same as the command `watersmeet`."""

import sys

from watersmeet.cli.main import main

sys.exit(main())
