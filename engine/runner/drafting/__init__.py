"""Speculation: tokens guessed ahead, and how many of them one step is to compute."""
