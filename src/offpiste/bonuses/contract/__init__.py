"""The contract of a bonus, as checks that anyone can run."""
