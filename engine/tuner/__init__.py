"""Finds the numbers that a device's launches are best made with (`cutaway tune`)."""
