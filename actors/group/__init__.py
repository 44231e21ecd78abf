"""Group: the actor that runs the merge of one destination while its server is the active one."""
