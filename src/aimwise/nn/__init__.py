"""Networks, samplers and losses: plain torch."""
