"""Words for people about values: the same in commands, answers of REST and screens."""
