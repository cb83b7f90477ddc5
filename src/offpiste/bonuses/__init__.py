"""Bonuses: the intrinsic rewards that the benchmark compares."""
