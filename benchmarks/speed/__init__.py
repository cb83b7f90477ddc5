"""How fast it is, and how much memory it takes."""
