"""`python -m offpiste` is the command `offpiste`.

Python puts the current folder first in the search path of `python -m`, so that a `numpy.py` there would be run. It is
taken out before anything is imported; a bonus named module:Class is still found there, after all that is installed.
What Python itself needs to start was imported by then: `python -P -m offpiste` keeps the folder out from the beginning.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109 (pathlib is not loaded yet)
    del sys.path[0]

from offpiste.cli import main

sys.exit(main())
