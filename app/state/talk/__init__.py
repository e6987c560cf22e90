"""Chats, messages, answers, and where they are kept."""
