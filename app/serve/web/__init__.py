"""Requests and answers as HTTP has them: guard, routes, streams, errors."""
