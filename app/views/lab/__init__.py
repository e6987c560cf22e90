"""The laboratory: sheets that make edits."""
