"""Where the agent lives."""
