"""Tables that rows are looked up in, as immutable files that processes map into memory.

A version of a table is a folder of column files and an index over the columns that joins compare.
Nothing is read before somebody asks for it, and whoever maps the same file shares its memory."""
