"""What both stages of training share: the optimizers, the schedule and what is kept on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

_SAVE_EVERY = 120.0  # seconds
_SMOOTH = 0.95
_SLOWER = 0.25


class Optimizers:
    """Muon for the matrices of layers, AdamW for the rest; warm up, then down to nothing.

    Parameters whose name begins with one of `taught` know something already and learn more slowly.
    """

    def __init__(
        self, parts: nn.Module, steps: int, rate: float = 2e-3, taught: tuple[str, ...] = ()
    ) -> None:
        self.parameters = list(parts.parameters())
        groups = [{"params": [], "slower": slower} for slower in (1.0, _SLOWER) * 2]
        for name, parameter in parts.named_parameters():
            is_inner = parameter.ndim == 2 and "layers" in name
            group = groups[2 * (not is_inner) + name.startswith(taught or ("-",))]
            group["params"].append(parameter)
        self._steps, self._rate = steps, rate
        muon, adam = ([g for g in pair if g["params"]] for pair in (groups[:2], groups[2:]))
        self._all = [
            torch.optim.Muon(muon, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(adam, lr=rate, betas=(0.9, 0.98), weight_decay=0.01),
        ]

    def step(self, loss: Tensor, at: int) -> None:
        """Learn from `loss` as step number `at`."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        rate = self._rate * min(1.0, (at + 1) / 100, 1.5 * max(0.01, 1 - at / self._steps))
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["slower"]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[dict]:
        return [optimizer.state_dict() for optimizer in self._all]

    def load(self, states: list[dict]) -> None:
        for optimizer, state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


class Progress:
    """The steps done, their smoothed loss and the part that was right; goes on from its file."""

    def __init__(self, path: Path, parts: nn.Module, optimizers: Optimizers) -> None:
        self._path, self._parts, self._optimizers = path, parts, optimizers
        self.step, self.loss, self.right = 0, 0.0, 0.0
        self._saved = time.monotonic()
        if path.exists():
            kept: Mapping = torch.load(path, weights_only=True)
            parts.load_state_dict(kept["parts"])
            optimizers.load(kept["optimizers"])
            self.step = kept["step"]

    def advance(self, loss: Tensor, right: float) -> None:
        """One step of learning from `loss`."""
        self._optimizers.step(loss, self.step)
        self.step += 1
        smooth = min(_SMOOTH, 1 - 1 / self.step)
        self.loss = smooth * self.loss + (1 - smooth) * loss.item()
        self.right = smooth * self.right + (1 - smooth) * right
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Keep everything, in place of what was kept before."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        kept = {
            "step": self.step,
            "parts": self._parts.state_dict(),
            "optimizers": self._optimizers.state(),
        }
        torch.save(kept, new)
        new.replace(self._path)
        self._saved = time.monotonic()

    def __str__(self) -> str:
        return f"step {self.step}: loss {self.loss:.3f}, {self.right:.1%} right"
