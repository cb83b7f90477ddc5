"""The contract of a bonus: what every class promises, and the program that sees whether one keeps it."""
