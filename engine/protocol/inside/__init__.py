"""What is told of a model's inside, and how it is changed on trial."""
