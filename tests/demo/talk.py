"""What is said besides questions about a picture, with the answers."""

SMALL_TALK = (
    ("Hello!", "Hello! Show me a picture of shapes and ask me about it."),
    ("Hi", "Hello! Show me a picture of shapes and ask me about it."),
    ("Hello", "Hello! Show me a picture of shapes and ask me about it."),
    ("Who are you?", "I am a small model that sees shapes."),
    ("What are you?", "I am a small model that sees shapes."),
    ("What can you do?", "I name shapes, their colours, sizes and places, and count them."),
    ("What can I ask?", "I name shapes, their colours, sizes and places, and count them."),
    ("Help", "I name shapes, their colours, sizes and places, and count them."),
    ("Thanks!", "You are welcome."),
    ("Thank you.", "You are welcome."),
    ("Bye", "Goodbye."),
    ("Goodbye!", "Goodbye."),
)
NO_PICTURE = "I see no picture yet."
