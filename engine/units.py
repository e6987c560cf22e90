"""Units of memory and of disks."""

KIB = 1 << 10
MIB = 1 << 20
GB = 10**9
"""What disks are counted in."""
