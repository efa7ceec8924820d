"""From the model's text to speech: clauses one can speak at once, and the engines that speak them."""
