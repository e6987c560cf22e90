"""Where a model goes: decided, foreseen to the byte, and explained."""
