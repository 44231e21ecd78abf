"""Forms: how the bytes of a binlog file lie on a disk: as they are, in compressed frames, encrypted."""
