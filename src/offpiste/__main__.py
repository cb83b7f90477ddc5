"""`python -m offpiste` is the command `offpiste`.

`python -m` puts the current folder first in the search path, so that a `numpy.py` there would be run. It is removed
before anything is imported; a bonus named module:Class is still found there, after all that is installed. What Python
itself imports at startup comes earlier: `python -P -m offpiste` keeps the folder out from the start.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109 (pathlib is not loaded yet)
    del sys.path[0]

from offpiste.cli import main

sys.exit(main())
