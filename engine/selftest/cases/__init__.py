"""What is checked: the cases of a family of operations each."""
