"""What looks into a model: its graph and what it computes, for those who want to understand it."""
