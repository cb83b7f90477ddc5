"""The workers of `peers`, each a process in an environment of its own; so nothing here imports what not all have."""
