/* What coll_init() was told goes before the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

coll_init_opts_t coll_init_opts_default(void) {
    return (coll_init_opts_t){.rank = -1, .size = -1, .address = NULL, .timeout = -1};
}

static int parse_address(const char *text, coll__env_t *env) {
    const char *colon = strrchr(text, ':');
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (!colon || colon == text || *end || colon[1] == 0 || port < 1 || port > 65535)
        return coll__error(COLL_ERR_ARG, "address is \"%s\", allowed is host:port with a port of 1 to 65535", text);
    size_t length = (size_t)(colon - text);
    if (length >= sizeof env->addr)
        return coll__error(COLL_ERR_ARG, "address has a host of %zu characters, allowed are %zu", length,
                           sizeof env->addr - 1);
    if (text[0] == '[' && text[length - 1] == ']') { /* [::1]:4000 */
        text++;
        length -= 2;
    }
    snprintf(env->addr, sizeof env->addr, "%.*s", (int)length, text);
    env->port = (int)port;
    return 0;
}

int coll__opts_apply(const coll_init_opts_t *opts, coll__env_t *env) {
    if ((opts->rank >= 0) != (opts->size >= 0))
        return coll__error(COLL_ERR_ARG, "rank is %d and size is %d: give both or neither", opts->rank, opts->size);
    if (opts->rank >= 0) {
        if (opts->size < 1 || opts->rank >= opts->size)
            return coll__error(COLL_ERR_ARG, "rank is %d, allowed are 0 to size-1 = %d", opts->rank, opts->size - 1);
        if (opts->size > COLL__MOST_RANKS)
            return coll__error(COLL_ERR_ARG, "size is %d, allowed are 1 to %d", opts->size, COLL__MOST_RANKS);
        env->rank = opts->rank;
        env->size = opts->size;
    }
    if (opts->address) {
        int status = parse_address(opts->address, env);
        if (status < 0)
            return status;
    }
    if (env->hier == COLL__HIER_LEADER || env->hier == COLL__HIER_SLICED)
        return coll__error(COLL_ERR_CONFIG,
                           "COLL_HIER=%s: this version has no hierarchical algorithms; allowed are auto and off",
                           env->hier == COLL__HIER_LEADER ? "leader" : "sliced");
    if (opts->timeout >= 0)
        env->timeout = opts->timeout;
    if (env->size < 0) {
        env->rank = 0;
        env->size = 1;
    }
    if (env->size > 1 && env->listen_fd < 0 && (!*env->addr || !env->port))
        return coll__error(
            COLL_ERR_CONFIG,
            "%d ranks need to know where rank 0 listens: set COLL_ADDR and COLL_PORT (or MASTER_ADDR and "
            "MASTER_PORT), or start them with `pycoll run`",
            env->size);
    return 0;
}
