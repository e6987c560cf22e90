"""What a model's answer says: its thoughts, its text, and the tools it calls."""
