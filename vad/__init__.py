"""Who speaks when: speech probability, hysteresis, and the rule that ends a turn."""
