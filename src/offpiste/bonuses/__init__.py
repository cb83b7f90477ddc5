"""The variable of the experiment: intrinsic rewards."""
