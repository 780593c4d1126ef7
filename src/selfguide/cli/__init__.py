"""The command line: one module a command, heavy imports only inside the functions that need them."""
