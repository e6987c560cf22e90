"""Output and input of commands on a terminal."""
