"""What is known of vendors and their models: addresses, what each model accepts, and prices."""
