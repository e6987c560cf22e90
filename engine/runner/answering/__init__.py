"""Answers being written: each as an object, and those that share steps."""
