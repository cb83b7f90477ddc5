"""Small worlds in pixels, solved in a minute or two: one module each, on the rules of `grid.py`, and Deep Sea."""
