"""Worlds in pixels that are over in a minute or two: rules in `grid.py`'s form, one module each, and Deep Sea."""
