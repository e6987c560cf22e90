"""Weights that prove something: random, on grids so coarse that a file of them packs well.

Fresh models have norms of 1 and biases of 0: they prove nothing. Every value is a small number of
64ths (matrices) or 256ths (vectors), exact in float16.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

MATRIX, VECTOR = 64, 256


def randomise(model: torch.nn.Module, peaked: Mapping[str, float], seed: int) -> None:
    """Give all parameters and persistent buffers of a model other values, in place; what an
    activation adds stays as small as it is.
    """
    draws = torch.Generator().manual_seed(seed)
    seen: set[int] = set()
    kept = model.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, values in kept.items():
            if values.data_ptr() in seen or not values.is_floating_point() or "act_fn.eps" in name:
                continue
            seen.add(values.data_ptr())
            values.copy_(_drawn(name, values, draws) * _factor(name, peaked))


def _factor(name: str, peaked: Mapping[str, float]) -> float:
    return next((factor for part, factor in peaked.items() if part in name), 1.0)


def _drawn(name: str, values: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
    normal = torch.randn(values.shape, generator=draws)
    if "A_log" in name:
        return _on_grid(1.5 * torch.rand(values.shape, generator=draws), VECTOR)
    if values.dim() < 2 or min(values.shape) == 1 or "norm" in name:
        return _on_grid(values + 0.3 * normal, VECTOR)
    gain = 2.0 if "embed" in name else 0.6 / values.shape[-1] ** 0.5
    return _on_grid(gain * normal, MATRIX)


def _on_grid(values: torch.Tensor, steps: int) -> torch.Tensor:
    return (values * steps).round() / steps
