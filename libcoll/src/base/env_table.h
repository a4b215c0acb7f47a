/* THE list of environment variables: X(field, NAME, type, default, checked, help).
 *
 * One row gives the field of coll__env_t, its parser, coll_env_get(), `pycoll env` and the page of the docs.
 *   type     int, bytes ("64k", "1m", "1g"), seconds, spin, text, secret (text, never shown), flag (0/1), or choice_...
 *            with its list in env_types.c; numbers have their limits in env.c
 *   default  as text, parsed by the same parser
 *   checked  1: every rank must have the same value; init compares them and names the ranks that differ
 */
#define COLL__ENV_TABLE(X)                                                                                            \
    X(rank, "COLL_RANK", int, "-1", 0, "this process's rank, 0 to COLL_SIZE-1; -1: not set (RANK is understood too)") \
    X(size, "COLL_SIZE", int, "-1", 0, "number of ranks; -1: not set (WORLD_SIZE is understood too)")                 \
    X(addr, "COLL_ADDR", text, "", 0, "host where rank 0 listens (MASTER_ADDR is understood too)")                    \
    X(port, "COLL_PORT", int, "0", 0, "port where rank 0 listens (MASTER_PORT is understood too); 0: not set")        \
    X(secret, "COLL_SECRET", secret, "", 0, "the job's secret; without it, one kept in the home directory")           \
    X(listen_fd, "COLL_LISTEN_FD", int, "-1", 0, "listening socket that rank 0 inherits from the launcher; -1: none") \
    X(node, "COLL_NODE", text, "", 0, "overrides the node's identity: ranks with the same text share memory")         \
    X(iface, "COLL_IFACE", text, "", 0, "network interface or address to use between nodes; empty: found out")        \
    X(provider, "COLL_PROVIDER", text, "", 1, "libfabric provider; empty: tcp")                                       \
    X(transport, "COLL_TRANSPORT", choice_transport, "auto", 1, "auto, shm (one node only) or ofi (everywhere)")      \
    X(packet_size, "COLL_PACKET_SIZE", bytes, "8k", 1, "largest message sent eagerly, in one packet; 256 to 1m")      \
    X(npackets, "COLL_NPACKETS", int, "32", 1, "eager packets a process keeps for each peer; 2 to 4096")              \
    X(spin_us, "COLL_SPIN_US", spin, "auto", 0, "microseconds to spin before parking; 0 parks at once; auto")         \
    X(poll_ms, "COLL_POLL_MS", int, "100", 0, "longest sleep of a parked wait in milliseconds; 1 to 1000")            \
    X(timeout, "COLL_TIMEOUT", seconds, "300", 0, "seconds a call may wait; 0: no limit (peers are still watched)")   \
    X(tune, "COLL_TUNE", text, "", 1, "rules that choose algorithms, e.g. allreduce:64k-inf:ring")                    \
    X(tune_file, "COLL_TUNE_FILE", text, "", 0, "file with such rules, one a line; COLL_TUNE goes before it")         \
    X(arity, "COLL_ARITY", int, "2", 1, "children of a node in trees between nodes; 2 to 64")                         \
    X(hier, "COLL_HIER", choice_hier, "auto", 1, "hierarchical algorithms: auto or off; this version has none")       \
    X(deterministic, "COLL_DETERMINISTIC", flag, "0", 1, "1: reductions fold in rank order")                          \
    X(progress, "COLL_PROGRESS", choice_progress, "caller", 0, "who makes progress: caller or a thread")              \
    X(log, "COLL_LOG", choice_log, "warn", 0, "messages on standard error: off, error, warn, info or debug")          \
    X(trace, "COLL_TRACE", text, "", 0, "file to write a line for each collective to; %r becomes the rank")
