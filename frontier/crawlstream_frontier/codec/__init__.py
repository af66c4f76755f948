"""Pack values as arguments of the operations, and unpack their answers.

Packed means msgpack in its old form (no separate type for bytes), which Lua uses. The header of
each Lua file gives the shapes. -1 means "none" where a number is expected.
"""
