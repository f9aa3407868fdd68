"""The registers that the stories and the hammer write to. Each process imports only its own."""
