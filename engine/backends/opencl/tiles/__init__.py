"""Weights' layouts on devices."""
