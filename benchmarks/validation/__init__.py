"""Whether the numbers are right: agents, bonuses, worlds and statistics beside what is known of them."""
