"""`python -m offpiste` is the command `offpiste`."""

import sys

from offpiste.cli import main

sys.exit(main())
