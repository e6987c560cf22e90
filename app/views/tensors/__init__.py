"""Numbers as a table, as colours, as shares and in sums."""
