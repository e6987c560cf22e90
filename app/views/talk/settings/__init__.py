"""Settings beside the composer, except sampling."""
