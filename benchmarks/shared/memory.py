"""How much memory a process takes."""

import os
from pathlib import Path


def resident_megabytes(pid: int | None = None) -> float:
    """Return the resident memory of this process or of another; 0 once that is gone."""
    try:
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
