"""`canal-group binlog`: what binlog files hold, in lines for people and for programs."""
