"""Model files, downloads, the library."""
