"""What an answer must look like, and how its parts are told apart: forms, tools and their calls."""
