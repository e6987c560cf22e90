"""What is set beside the composer, but for how tokens are drawn."""
