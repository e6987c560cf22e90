"""Text architectures: one file each, its name is `general.architecture`."""
