"""Chats on disk: the database, what its rows mean, chats as files."""
