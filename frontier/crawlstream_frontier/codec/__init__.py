"""Values to the packed arguments of the operations, and their packed answers to values.

Packed means msgpack in its old form (no separate type for bytes), which is what Lua speaks; the
shapes are those in the header of each Lua file. -1 stands for "none" where a number is expected.
"""
