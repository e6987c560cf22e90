"""Text as tokens, painted and chosen."""
