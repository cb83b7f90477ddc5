"""Worlds: Atari games, and small ones that others can use too, as in `gymnasium.make("offpiste/KeyDoor-v0")`."""

from offpiste.worlds.small.suite import register

register()
