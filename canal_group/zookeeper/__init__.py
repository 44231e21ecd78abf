"""ZooKeeper: the names of canal's tree, who we are to it, and the mark that stops a destination."""
