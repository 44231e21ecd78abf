"""What a dump server decides: what it retains, where a reader attaches, when it may claim idleness."""
