"""Requests in, tokens out: prompt, batches, caches, sampling."""

from engine.runner.api import Model, load

__all__ = ["Model", "load"]
