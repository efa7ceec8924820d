"""From speech to text while it is spoken: what to decode when, and which words are settled."""
