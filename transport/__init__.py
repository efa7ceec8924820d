"""How a caller's audio and events reach a call and how the agent's go back, whatever the protocol."""
