"""The sheet that tries a change."""
