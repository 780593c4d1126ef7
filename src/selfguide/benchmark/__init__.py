"""How fast this is on the machine at hand, against what people use otherwise."""
