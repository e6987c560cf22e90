"""Memory: bars, cells, matrix, allocations."""
