"""What each bonus costs per agent step, beside the ε-greedy agent's own step and beside bare torch, on one thread.

Blocks of real training on Montezuma's Revenge in fp32 with a warm replay, every action chosen by the network, are
played with each bonus in turn. The bonus is timed inside the loop, where an update has just emptied the caches, and
then thrown away, so that the agent stays the ε-greedy one; its share is its time over the rest of the same block. In
the same rounds, each learned bonus takes turns over recorded steps with bare torch: the same forward and backward
passes and optimiser step from the same weights, written plainly, with inputs ready made. Ratios are medians over the
rounds. Times are processor time: on one thread the same as by the clock, without what other programs take. NoisyNets'
step stands beside ε-greedy's for information.

Everything that learns has first taken 800 steps of its optimiser; `--quick` leaves that out. Denormal numbers, into
which the moments of parameters without a gradient decay about then, count as 0 on both sides, as in a run.

Bars: CTS takes under 3% of the ε-greedy agent's step; PixelCNN, ICM and RND, in both its forms, take at most 1.3 of the
bare cost. CTS is timed after `--cts-frames` pictures of random play; how much memory its trees then take is printed,
and for every bonus the size of its object in a checkpoint.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from offpiste.bonuses.base import Bonus, Context, Transition
from offpiste.bonuses.icm import shrink
from offpiste.bonuses.pixelcnn import symbols
from offpiste.bonuses.registry import build, seeded_globals
from offpiste.bonuses.rnd import normalise, released_moments, welford
from offpiste.config import AgentConfig, ExplorationConfig, MachineConfig, RunConfig, WorldConfig
from offpiste.methods import METHODS
from offpiste.run.loop import Loop
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.store import arrays
from recording import random_play

MAX_CTS_SHARE = 0.03
MAX_RATIO = 1.3
GAME = "montezuma_revenge"
ACTIONS = 18
FRAME_SHAPE = WorldConfig().state_shape[1:]
BONUSES = tuple(name for name, row in METHODS.items() if row.bonus_class)
BLOCK_STEPS = 20
"""A multiple of the period of updates, so that all blocks hold equally many."""
BLOCKS = 10
"""Blocks of recorded steps, used over and over."""
WARM_STEPS = 1_000
SETTLED_UPDATES = 800


def main() -> int:
    """Measure, and return 0 if the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds, and 2,000 pictures for CTS")
    parser.add_argument("--cts-frames", type=int, metavar="N", help="pictures that CTS sees first (default 100,000)")
    options = parser.parse_args()
    prepare(MachineConfig())
    rounds, settled = (3, 0) if options.quick else (15, SETTLED_UPDATES)
    bonuses = {name: make(name) for name in BONUSES}
    grow(bonuses["cts"], options.cts_frames or (2_000 if options.quick else 100_000))

    inside = InsideTheLoop()
    epsilon_greedy = warm_loop(ExplorationConfig(epsilon_final=0.0, epsilon_decay_steps=1), settled, inside)
    noisy_nets = warm_loop(METHODS["noisy_nets"].exploration, settled)
    recorded = list(islice(random_play(GAME, seed=1), settled + BLOCKS * BLOCK_STEPS))
    bare = {
        "pixelcnn": bare_pixelcnn(recorded),
        "icm": bare_icm(recorded, bonuses["icm"]),
        "rnd": bare_rnd(truly_normalised(recorded), bonuses["rnd"]),
        "rnd_released": bare_rnd(normalised_as_released(recorded), bonuses["rnd_released"]),
    }
    for name, work in bare.items():
        for step in range(settled):
            bonuses[name].observe(recorded[step])
            work(step)

    agents: dict[str, list[float]] = {"epsilon_greedy": [], "noisy_nets": []}
    costs: dict[str, list[float]] = {name: [] for name in BONUSES}
    shares: dict[str, list[float]] = {name: [] for name in BONUSES}
    ours: dict[str, list[float]] = {name: [] for name in bare}
    theirs: dict[str, list[float]] = {name: [] for name in bare}
    for turn in range(rounds):
        agents["epsilon_greedy"].append(seconds(epsilon_greedy, range(BLOCK_STEPS)))
        agents["noisy_nets"].append(seconds(noisy_nets, range(BLOCK_STEPS)))
        for name in BONUSES:
            inside.bonus, inside.seconds = bonuses[name], 0.0
            whole = seconds(epsilon_greedy, range(BLOCK_STEPS))
            inside.bonus = None
            costs[name].append(inside.seconds)
            shares[name].append(inside.seconds / (whole - inside.seconds))
        first = settled + turn % BLOCKS * BLOCK_STEPS
        block = range(first, first + BLOCK_STEPS)
        for name, work in bare.items():
            observe = bonuses[name].observe
            ours[name].append(seconds(lambda step, observe=observe: observe(recorded[step]), block))  # type: ignore[misc]
            theirs[name].append(seconds(work, block))

    ratios = {name: float(np.median(np.divide(ours[name], theirs[name]))) for name in bare}
    share = {name: float(np.median(values)) for name, values in shares.items()}
    steps = {name: milliseconds(values) for name, values in agents.items()}
    print(f"ms per agent step: epsilon_greedy {steps['epsilon_greedy']:.2f}, noisy_nets {steps['noisy_nets']:.2f}")
    print(f"{'bonus':<16}{'ms per step':>12}{'of the step':>13}{'over bare':>11}{'bare ms':>9}{'checkpoint MB':>15}")
    for name in BONUSES:
        beside = f"{ratios[name]:>11.2f}{milliseconds(theirs[name]):>9.2f}" if name in bare else f"{'':>20}"
        print(f"{name:<16}{milliseconds(costs[name]):>12.3f}{share[name]:>13.1%}{beside}{packed(bonuses[name]):>15.2f}")
    over = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    print(f"cts {share['cts']:.1%} of the epsilon_greedy step; over bare torch: {over}")
    return 0 if share["cts"] < MAX_CTS_SHARE and max(ratios.values()) <= MAX_RATIO else 1


def make(name: str, game: str = GAME) -> Bonus:
    """Return a bonus with the constants of its method, before its first step, for a game with all 18 actions."""
    context = Context(game, ACTIONS, WorldConfig().stack_frames, FRAME_SHAPE, stream(0, "bonus"))
    bonus = build(METHODS[name].bonus, context)
    assert bonus is not None
    return bonus


def grow(cts: Bonus, pictures: int) -> None:
    """Let CTS see so many pictures of random play, and tell at every power of ten how large it has become."""
    milestones = {pictures, *(10**power for power in range(3, 9) if 10**power < pictures)}
    play = random_play(GAME, seed=0)
    cts.observe(next(play))  # compiles it, before memory is looked at
    before, spent = resident_megabytes(), 0.0
    for seen, transition in enumerate(islice(play, pictures - 1), start=2):
        start = time.process_time()
        cts.observe(transition)
        spent += time.process_time() - start
        if seen in milestones:
            grown = resident_megabytes() - before
            start = time.process_time()
            size = packed(cts)
            print(
                f"cts after {seen:,} pictures: {grown:.0f} MB of memory, {size:.1f} MB in a checkpoint "
                f"(packed in {time.process_time() - start:.2f} s), {1e3 * spent / seen:.3f} ms a picture",
                flush=True,
            )


class InsideTheLoop:
    """Stands in for the bonus of a loop: times whichever bonus is set, and pays nothing."""

    def __init__(self) -> None:
        self.bonus: Bonus | None = None
        self.seconds = 0.0

    def observe(self, transition: Transition) -> float:
        """Let the bonus look and note how long that took."""
        if self.bonus is not None:
            start = time.process_time()
            self.bonus.observe(transition)
            self.seconds += time.process_time() - start
        return 0.0

    def state(self) -> dict[str, Any]:
        """Return nothing: this is never saved."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def warm_loop(exploration: ExplorationConfig, updates: int, bonus: Bonus | None = None) -> Callable[[object], object]:
    """Return a function that takes one agent step of a run which learns and chooses every action by its network."""
    agent = AgentConfig(min_history_steps=WARM_STEPS)
    loop = Loop(RunConfig(game=GAME, agent=agent, exploration=exploration), bonus=bonus)
    steps = loop.steps()
    while loop.tracker.training_steps <= WARM_STEPS + 2 * BLOCK_STEPS + updates * agent.update_period_steps:
        next(steps)
    return lambda _: next(steps)


def bare_pixelcnn(recorded: Sequence[Transition]) -> Callable[[int], None]:
    """Return one step of PixelCNN: forward, backward, RMSProp, and forward again."""
    with seeded_globals(0):
        network = PixelCnnNetwork()
    assert sum(parameter.numel() for parameter in network.parameters()) == 19_688
    pictures = torch.from_numpy(np.stack([symbols(transition.frame) for transition in recorded]))
    inputs, targets = pictures[:, None].float(), pictures.long()
    optimizer = torch.optim.RMSprop(network.parameters(), 1e-4, alpha=0.9, momentum=0.9, eps=1e-4, foreach=True)

    def step(index: int) -> None:
        picture, target = inputs[index : index + 1], targets[index : index + 1]
        optimizer.zero_grad()
        functional.cross_entropy(network(picture), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            functional.cross_entropy(network(picture), target)

    return step


class PixelCnnNetwork(nn.Module):
    """The released PixelCNN with torch's own convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 7, padding=3)
        self.positions = nn.Parameter(torch.zeros(1, 4, 42, 42))
        self.masked = nn.ModuleList(nn.Conv2d(16, 32, 3, padding=1) for _ in range(2))
        self.placed = nn.ModuleList(nn.Conv2d(4, 32, 1) for _ in range(2))
        self.out = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in range(2))
        self.merge, self.hidden, self.logits = nn.Conv2d(4, 16, 1), nn.Conv2d(16, 64, 1), nn.Conv2d(64, 8, 1)
        self.mask_a = (torch.arange(49) < 24).view(7, 7).float()
        self.mask_b = (torch.arange(9) < 5).view(3, 3).float()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, [1, 8, 42, 42]."""
        x = functional.conv2d(x, self.first.weight * self.mask_a, self.first.bias, padding=3)
        for masked, placed, out in zip(self.masked, self.placed, self.out, strict=True):
            assert isinstance(masked, nn.Conv2d)
            gates = functional.conv2d(x, masked.weight * self.mask_b, masked.bias, padding=1)
            gates = gates + placed(self.positions)
            x = x + out(gates[:, 0::2].tanh() + gates[:, 1::2].sigmoid())
        x = torch.relu(x + self.merge(self.positions))
        return self.logits(torch.relu(self.hidden(x)))  # type: ignore[no-any-return]


def bare_icm(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of the curiosity module: forward, backward, Adam."""
    network = CuriosityNetwork().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    begin_like(network, like, "network/")
    pairs = np.empty((len(recorded), 2, 4, 42, 42), np.uint8)
    for pair, transition in zip(pairs, recorded, strict=True):
        shrink(transition.state, pair[0])
        shrink(transition.next_state, pair[1])
    inputs = [(torch.from_numpy(pair) / 255).contiguous(memory_format=torch.channels_last) for pair in pairs]
    actions = [torch.tensor([transition.action]) for transition in recorded]
    optimizer = torch.optim.Adam(network.parameters(), 1e-4, fused=True)

    def step(index: int) -> None:
        optimizer.zero_grad()
        network(inputs[index], actions[index]).backward()
        optimizer.step()

    return step


class CuriosityNetwork(nn.Module):
    """Pathak's networks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)),  # as SAME pads
            *(nn.Conv2d(4, 32, 3, 2), nn.ELU()),
            *(nn.Conv2d(32, 32, 3, 2, padding=1), nn.ELU()),
            *(nn.Conv2d(32, 32, 3, 2, padding=1), nn.ELU()),
            nn.ZeroPad2d((0, 1, 0, 1)),
            *(nn.Conv2d(32, 32, 3, 2), nn.ELU()),
            nn.Flatten(),
        )
        self.inverse = nn.Sequential(nn.Linear(2 * 288, 256), nn.ReLU(), nn.Linear(256, ACTIONS))
        self.foresee = nn.Sequential(nn.Linear(288 + ACTIONS, 256), nn.ReLU(), nn.Linear(256, 288))

    def forward(self, pictures: Tensor, action: Tensor) -> Tensor:
        """Return the joint loss of two states, [2, 4, 42, 42], and the action between them."""
        now, later = self.embed(pictures).split(1)
        inverse_loss = functional.cross_entropy(self.inverse(torch.cat([now, later], 1)), action)
        foreseen = self.foresee(torch.cat([now, functional.one_hot(action, ACTIONS)], 1))
        surprise: Tensor = (foreseen - later).square().sum()
        return 0.995 * inverse_loss + 0.005 * 0.5 * surprise


def bare_rnd(normal: Tensor, like: Bonus) -> Callable[[int], None]:
    """Return one step of RND on pictures [steps, 1, 84, 84]: through both networks, back through one, Adam."""
    target, predictor = random_features(0), random_features(2)
    begin_like(target, like, "target/")
    begin_like(predictor, like, "predictor/")
    optimizer = torch.optim.Adam(predictor.parameters(), 2e-4, eps=1e-5, fused=True)

    def step(index: int) -> None:
        picture = normal[index : index + 1]
        with torch.no_grad():
            wanted = target(picture)
        optimizer.zero_grad()
        functional.mse_loss(predictor(picture), wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def random_features(hidden_layers: int) -> nn.Sequential:
    """Return the target of RND, or with two hidden layers its predictor."""
    layers: list[nn.Module] = [nn.Conv2d(1, 32, 8, 4, padding=2), nn.LeakyReLU(0.2), nn.ZeroPad2d((1, 2, 1, 2))]
    layers += [nn.Conv2d(32, 64, 4, 2), nn.LeakyReLU(0.2), nn.Conv2d(64, 64, 3, 1, padding=1), nn.LeakyReLU(0.2)]
    layers += [nn.Flatten(), nn.Linear(7_744, 512)]
    for _ in range(hidden_layers):
        layers += [nn.ReLU(), nn.Linear(512, 512)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def truly_normalised(recorded: Sequence[Transition]) -> Tensor:
    """Return the pictures as `rnd` normalises them."""
    mean, squares, pictures = np.zeros(FRAME_SHAPE), np.zeros(FRAME_SHAPE), []
    for count, transition in enumerate(recorded, start=1):
        mean, squares = welford(mean, squares, transition.frame, count)
        pictures.append(normalise(transition.frame, mean, np.maximum(np.sqrt(squares / count), 1e-8)))
    return torch.from_numpy(np.stack(pictures).astype(np.float32))[:, None]


def normalised_as_released(recorded: Sequence[Transition]) -> Tensor:
    """Return the pictures as `rnd_released` normalises them."""
    mean, spread, pictures = np.zeros(FRAME_SHAPE), np.ones(FRAME_SHAPE), []
    for count, transition in enumerate(recorded, start=1):
        pictures.append(normalise(transition.frame, mean, spread))
        mean, spread = released_moments(mean, spread, pictures[-1], count)
    return torch.from_numpy(np.stack(pictures).astype(np.float32))[:, None]


@torch.no_grad()
def begin_like(network: nn.Module, bonus: Bonus, prefix: str) -> None:
    """Give a network the weights of a bonus; layers are in the same order, and have as many of them."""
    weights = [array for name, array in bonus.state().items() if name.startswith(prefix)]
    for parameter, array in zip(network.parameters(), weights, strict=True):
        assert parameter.shape == array.shape
        parameter.copy_(torch.from_numpy(array))


def packed(bonus: Bonus) -> float:
    """Return the megabytes of a bonus's object in a checkpoint, which is written as it is packed."""
    return len(arrays.pack(bonus.state())) / 1e6


def seconds(work: Callable[[int], object], block: Sequence[int]) -> float:
    """Return the processor time of the work on a block."""
    start = time.process_time()
    for step in block:
        work(step)
    return time.process_time() - start


def milliseconds(blocks: Sequence[float]) -> float:
    """Return the median over blocks of the time of one step."""
    return 1e3 * float(np.median(blocks)) / BLOCK_STEPS


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    sys.exit(main())
