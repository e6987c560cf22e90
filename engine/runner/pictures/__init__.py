"""Pictures in prompts: kept by digest, encoded once, placed among tokens, found in templates."""
