"""One call's life, and the process around it."""
