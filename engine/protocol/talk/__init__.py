"""Questions, answers, and what belongs to both."""
