"""What lies over other widgets, or pushes them aside for a while."""
