"""One engine for several programs of the same person on one machine."""
