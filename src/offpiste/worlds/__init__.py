"""Worlds: Atari games, and small ones that are gymnasium environments too: `gymnasium.make("offpiste/KeyDoor-v0")`."""

from offpiste.worlds.small.suite import register

register()
