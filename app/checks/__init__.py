"""What the engine's processes find out about devices and drivers, asked and heard."""
