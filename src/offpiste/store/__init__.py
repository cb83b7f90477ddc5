"""What lies on disk or in an object store; readable without torch."""
