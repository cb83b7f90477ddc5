"""The learned bonuses in bare torch: their passes and optimiser steps, written plainly, with inputs ready made.

Each function takes recorded steps and returns one that does the work of `observe` on the step of an index.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.shared.bonuses import ACTIONS, FRAME_SHAPE, STACK
from offpiste.bonuses.base import Bonus, Transition
from offpiste.bonuses.icm import shrink
from offpiste.bonuses.pixelcnn import symbols
from offpiste.bonuses.registry import seeded_globals
from offpiste.bonuses.rnd import normalise, released_moments, welford


def pixelcnn(recorded: Sequence[Transition]) -> Callable[[int], None]:
    """Return one step of PixelCNN: forward, backward, RMSProp, and forward again."""
    with seeded_globals(0):
        network = PixelCnnNetwork()
    assert sum(parameter.numel() for parameter in network.parameters()) == 19_688
    frames = torch.from_numpy(np.stack([symbols(transition.frame) for transition in recorded]))
    inputs, targets = frames[:, None].float(), frames.long()
    optimizer = torch.optim.RMSprop(network.parameters(), 1e-4, alpha=0.9, momentum=0.9, eps=1e-4, foreach=True)

    def step(index: int) -> None:
        frame, target = inputs[index : index + 1], targets[index : index + 1]
        optimizer.zero_grad()
        functional.cross_entropy(network(frame), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            functional.cross_entropy(network(frame), target)

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


def icm(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of the curiosity module: forward, backward, Adam."""
    network = CuriosityNetwork().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    _begin_like(network, like, "network/")
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
        self.inverse_model = nn.Sequential(nn.Linear(2 * 288, 256), nn.ReLU(), nn.Linear(256, ACTIONS))
        self.forward_model = nn.Sequential(nn.Linear(288 + ACTIONS, 256), nn.ReLU(), nn.Linear(256, 288))

    def forward(self, states: Tensor, action: Tensor) -> Tensor:
        """Return the joint loss of two states, [2, 4, 42, 42], and the action between them."""
        now, later = self.embed(states).split(1)
        inverse_loss = functional.cross_entropy(self.inverse_model(torch.cat([now, later], 1)), action)
        predicted = self.forward_model(torch.cat([now, functional.one_hot(action, ACTIONS)], 1))
        error: Tensor = (predicted - later).square().sum()
        return 0.995 * inverse_loss + 0.005 * 0.5 * error


def rnd(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of RND: through both networks, back through one, Adam."""
    return _rnd(_normalised(recorded), like)


def rnd_released(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return the same on frames normalised as the released code does."""
    return _rnd(_normalised_as_released(recorded), like)


def rnd_full(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of RND through networks without padding."""
    return _rnd(_normalised(recorded), like, learning_rate=1e-4, padded=False)


def drnd(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of DRND: through five random networks and the predictor, back through that, Adam."""
    frames = _normalised(recorded)
    targets = nn.ModuleList(random_features(0, padded=False) for _ in range(5))
    predictor = random_features(2, padded=False)
    _begin_like(targets, like, "targets/")
    _begin_like(predictor, like, "predictor/")
    optimizer = torch.optim.Adam(predictor.parameters(), 1e-4, eps=1e-5, fused=True)

    def step(index: int) -> None:
        frame = frames[index : index + 1]
        with torch.no_grad():
            wanted = torch.cat([target(frame) for target in targets])
        optimizer.zero_grad()
        functional.mse_loss(predictor(frame)[0], wanted[index % 5]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _rnd(
    frames: Tensor,
    like: Bonus,
    features: int = 512,
    learning_rate: float = 2e-4,
    prefix: str = "",
    *,
    padded: bool = True,
) -> Callable[[int], None]:
    """Return one step of RND on frames [steps, 1, 84, 84]."""
    target, predictor = (random_features(hidden, features=features, padded=padded) for hidden in (0, 2))
    _begin_like(target, like, f"{prefix}target/")
    _begin_like(predictor, like, f"{prefix}predictor/")
    optimizer = torch.optim.Adam(predictor.parameters(), learning_rate, eps=1e-5, fused=True)

    def step(index: int) -> None:
        frame = frames[index : index + 1]
        with torch.no_grad():
            wanted = target(frame)
        optimizer.zero_grad()
        functional.mse_loss(predictor(frame), wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def noveld(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of NovelD: two frames through both networks, back from the second through one, Adam."""
    frames = _normalised(recorded)
    target, predictor = random_features(0), random_features(2)
    _begin_like(target, like, "target/")
    _begin_like(predictor, like, "predictor/")
    optimizer = torch.optim.Adam(predictor.parameters(), 1e-4, eps=1e-5, fused=True)

    def step(index: int) -> None:
        pair = frames[max(index - 1, 0) : max(index, 1) + 1]
        with torch.no_grad():
            wanted = target(pair)
        optimizer.zero_grad()
        errors = (predictor(pair) - wanted).square().mean(1)
        errors[1].backward()
        optimizer.step()

    return step


def e3b(recorded: Sequence[Transition], like: Bonus, prefix: str = "") -> Callable[[int], None]:
    """Return one step of E3B: an embedding, C⁻¹, and on every fourth step an inverse model's update."""
    embed = _inverse_dynamics(recorded, like, 128, 1e-4, prefix=f"{prefix}inverse/")
    inverse = torch.eye(128, dtype=torch.float64)

    def step(index: int) -> None:
        phi = embed(index).double()
        reached = inverse @ phi
        inverse.sub_(torch.outer(reached, reached) / (1 + phi @ reached))

    return step


def ngu(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of NGU: an embedding, on every fourth step an inverse model's update, and a step of RND."""
    embed, distil = _inverse_dynamics(recorded, like, 32, 5e-4), _rnd(_normalised(recorded), like, 128, 5e-4)

    def step(index: int) -> None:
        embed(index)
        distil(index)

    return step


def disagreement(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of disagreement: an embedding, five forward models, and on every fourth step updates of all."""
    models = nn.ModuleList(_forward_model(512) for _ in range(5))
    _begin_like(models, like, "forward/")
    optimizer = torch.optim.Adam(models.parameters(), 1e-4, fused=True)

    def predict(features: Tensor, actions: Tensor) -> Tensor:
        inputs = torch.cat([features, functional.one_hot(actions, ACTIONS)], 1)
        return torch.stack([model(inputs) for model in models])

    def train(now: Tensor, later: Tensor, actions: Tensor) -> None:
        optimizer.zero_grad()
        (5 * functional.mse_loss(predict(now, actions), later.expand(5, -1, -1))).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    embed = _inverse_dynamics(recorded, like, 512, 1e-4, train=train)
    actions = torch.tensor([[transition.action] for transition in recorded])

    def step(index: int) -> None:
        with torch.no_grad():
            predict(embed(index)[None], actions[index]).var(0, correction=0).mean()

    return step


def ride(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of RIDE: two embeddings, and on every fourth step an update by inverse and forward model."""
    embed = _inverse_dynamics(recorded, like, 128, 1e-4, forward=_forward_model(128), states_ahead=(0, 1))

    def step(index: int) -> None:
        now, later = embed(index)
        (later - now).norm()

    return step


def e3b_rnd(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of E3B × RND: one of each."""
    of_episode, of_run = e3b(recorded, like, "episodic/"), _rnd(_normalised(recorded), like, prefix="lifelong/")

    def step(index: int) -> None:
        of_episode(index)
        of_run(index)

    return step


def cfn(recorded: Sequence[Transition], like: Bonus) -> Callable[[int], None]:
    """Return one step of CFN: a frame through two networks, and before every fourth a step on 128 frames."""
    network, prior = (random_features(0, features=20) for _ in range(2))
    _begin_like(network, like, "network/")
    _begin_like(prior, like, "prior/")
    optimizer = torch.optim.Adam(network.parameters(), 1e-4, fused=True)
    frames = torch.from_numpy(np.stack([transition.frame for transition in recorded]))[:, None]
    flips = torch.randint(2, (len(recorded), 20), generator=torch.Generator().manual_seed(0)) * 2.0 - 1

    def outputs(chosen: Tensor) -> Tensor:
        x = (chosen / 255).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            fixed = prior(x)
        return network(x) + fixed  # type: ignore[no-any-return]

    def step(index: int) -> None:
        if index % 4 == 0:
            rows = [(index + 7 * row) % len(recorded) for row in range(128)]
            optimizer.zero_grad()
            functional.mse_loss(outputs(frames[rows]), flips[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            outputs(frames[index : index + 1]).square().mean()

    return step


def _forward_model(features: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features + ACTIONS, 256), nn.ReLU(), nn.Linear(256, features))


def _inverse_dynamics(
    recorded: Sequence[Transition],
    like: Bonus,
    features: int,
    learning_rate: float,
    *,
    prefix: str = "inverse/",
    forward: nn.Module | None = None,
    train: Callable[[Tensor, Tensor, Tensor], None] | None = None,
    states_ahead: Sequence[int] = (0,),
) -> Callable[[int], Tensor]:
    """Return a function that embeds a state, and before every fourth takes a step on 32 pairs.

    A forward model trains along; `train` is given their features and actions. With several `states_ahead`, so many are
    embedded.
    """
    embedding = nn.Sequential(*random_features(0, channels=STACK, features=features), nn.ReLU())
    model = nn.Sequential(nn.Linear(2 * features, 128), nn.ReLU(), nn.Linear(128, ACTIONS))
    trained = nn.ModuleList([embedding, model, *([forward] if forward else [])])
    _begin_like(trained, like, prefix)
    optimizer = torch.optim.Adam(trained.parameters(), learning_rate, fused=True)
    states = [torch.from_numpy(transition.state.copy()) for transition in recorded]
    actions = torch.tensor([transition.action for transition in recorded])

    def inputs(chosen: list[Tensor]) -> Tensor:
        return (torch.stack(chosen) / 255).contiguous(memory_format=torch.channels_last)

    def step(index: int) -> Tensor:
        if index % 4 == 0:
            rows = [(index + 7 * row) % (len(states) - 1) for row in range(32)]
            now, later = embedding(inputs([states[row + ahead] for ahead in (0, 1) for row in rows])).chunk(2)
            loss = functional.cross_entropy(model(torch.cat([now, later], 1)), actions[rows])
            if forward:
                predicted = forward(torch.cat([now, functional.one_hot(actions[rows], ACTIONS)], 1))
                loss = loss + 100 * (predicted - later).norm(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if train:
                train(now.detach(), later.detach(), actions[rows])
        with torch.no_grad():
            features = embedding(inputs([states[min(index + ahead, len(states) - 1)] for ahead in states_ahead]))
            return features[0] if len(states_ahead) == 1 else features  # type: ignore[no-any-return]

    return step


def random_features(
    hidden_layers: int, channels: int = 1, features: int = 512, *, padded: bool = True
) -> nn.Sequential:
    """Return the target of RND, or with two hidden layers its predictor."""
    outer, inner, pad = (2, 1, (1, 2, 1, 2)) if padded else (0, 0, (0, 0, 0, 0))
    layers: list[nn.Module] = [nn.Conv2d(channels, 32, 8, 4, padding=outer), nn.LeakyReLU(0.2), nn.ZeroPad2d(pad)]
    layers += [nn.Conv2d(32, 64, 4, 2), nn.LeakyReLU(0.2), nn.Conv2d(64, 64, 3, 1, padding=inner), nn.LeakyReLU(0.2)]
    layers += [nn.Flatten(), nn.Linear(7_744 if padded else 3_136, features)]
    for _ in range(hidden_layers):
        layers += [nn.ReLU(), nn.Linear(features, features)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _normalised(recorded: Sequence[Transition]) -> Tensor:
    """Return the frames as `rnd` normalises them."""
    mean, squares, frames = np.zeros(FRAME_SHAPE), np.zeros(FRAME_SHAPE), []
    for count, transition in enumerate(recorded, start=1):
        mean, squares = welford(mean, squares, transition.frame, count)
        frames.append(normalise(transition.frame, mean, np.maximum(np.sqrt(squares / count), 1e-8)))
    return torch.from_numpy(np.stack(frames).astype(np.float32))[:, None]


def _normalised_as_released(recorded: Sequence[Transition]) -> Tensor:
    """Return the frames as `rnd_released` normalises them."""
    mean, spread, frames = np.zeros(FRAME_SHAPE), np.ones(FRAME_SHAPE), []
    for count, transition in enumerate(recorded, start=1):
        frames.append(normalise(transition.frame, mean, spread))
        mean, spread = released_moments(mean, spread, frames[-1], count)
    return torch.from_numpy(np.stack(frames).astype(np.float32))[:, None]


@torch.no_grad()
def _begin_like(network: nn.Module, bonus: Bonus, prefix: str) -> None:
    """Give a network the weights of a bonus; layers are in the same order, and have as many of them."""
    weights = [array for name, array in bonus.state().items() if name.startswith(prefix)]
    for parameter, array in zip(network.parameters(), weights, strict=True):
        assert parameter.shape == array.shape
        parameter.copy_(torch.from_numpy(array))
