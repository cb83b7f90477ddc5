"""The learner, the same for every way of exploring."""
