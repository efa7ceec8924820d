"""What the agent says: a streaming chat model, its prompt, and the engines behind it."""
