"""A network of our own shape for the peers whose stock network is smaller, in plain torch."""

from torch import nn


def padded_network(actions: int, atoms: int) -> nn.Sequential:
    """Return a network from scaled frames [batch, 4, 84, 84] to [batch, actions, atoms], SAME padding throughout."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4, padding=2),  # [batch, 32, 21, 21]
        nn.ReLU(),
        nn.ZeroPad2d((1, 2, 1, 2)),
        nn.Conv2d(32, 64, 4, 2),  # [batch, 64, 11, 11]
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(7_744, 512),
        nn.ReLU(),
        nn.Linear(512, actions * atoms),
        nn.Unflatten(1, (actions, atoms)),
    )
