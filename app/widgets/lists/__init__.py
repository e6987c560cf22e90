"""Long lists: columns, rows, tables."""
