"""From statements to a page: one file to read, the figures and tables beside it; without torch or Ray."""
