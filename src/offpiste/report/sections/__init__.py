"""The sections of a report, in the order of the page."""
