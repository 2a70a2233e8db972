"""Every table and figure of the AIM paper: which cells it is made of, how they are set out, and what the paper prints there."""
