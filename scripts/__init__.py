"""Programs for maintainers, run from the repository's root: `python -m scripts.measured`."""
