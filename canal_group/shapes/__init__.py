"""Shapes: the changes of all tables in the forms of other systems, for every reader that hands them on."""
