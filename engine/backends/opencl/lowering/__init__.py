"""From a graph's nodes to those that launches run."""
