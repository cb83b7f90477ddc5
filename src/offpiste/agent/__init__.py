"""Rainbow: the agent that every exploration method shares."""
