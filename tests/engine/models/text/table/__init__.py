"""One module a family; each has `ROWS`."""
