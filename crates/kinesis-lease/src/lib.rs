//! Who reads which shard: the lease rows of the KCL and a coordinator without I/O
