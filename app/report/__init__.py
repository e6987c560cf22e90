"""What a machine's devices are and do, in one file for people who cannot see the machine."""
