/* Start and end. The ranks meet, compare what must be equal, find out who shares a node, open the transports that the
 * layout needs, exchange addresses, and have a world communicator. Whatever goes wrong on one rank is told to all: its
 * card says so.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/api.h"
#include "api/cards.h"
#include "base/log.h"
#include "node/heap.h"
#include "transport/shm/shm.h"

coll__world_t coll__world;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

enum { GOODBYE_S = 10, GOODBYE_BROKEN_S = 1, WORLD_ID = 1 };

/* Everything that init has made so far, so that any failure can undo it. */
struct making {
    coll__env_t env;
    coll__job_t *job;
    int wake_fd;
    coll__engine_t *engine;
    coll__first_card_t *cards;
    coll__second_card_t *second;
    int *label;
    int *local_ranks;
    int local_size, node_count;
    coll__transport_t *transports[COLL__TRANSPORT_COUNT];
    int64_t deadline;
};

/* ---- the steps of init ---- */

static int meet(struct making *m) {
    m->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (m->wake_fd < 0)
        return coll__error(COLL_ERR_STATE, "eventfd: %s", strerror(errno));
    coll__job_opts_t opts = {.rank = m->env.rank,
                             .size = m->env.size,
                             .host = m->env.addr,
                             .port = m->env.port,
                             .listen_fd = m->env.rank == 0 ? m->env.listen_fd : -1,
                             .secret = m->env.secret,
                             .deadline = m->deadline,
                             .wake_fd = m->wake_fd};
    return coll__job_join(&opts, &m->job);
}

static int show_first_card(struct making *m, int size) {
    coll__first_card_t *mine = calloc(1, sizeof *mine);
    m->cards = calloc((size_t)size, sizeof *m->cards);
    if (!mine || !m->cards) {
        free(mine);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the cards of %d ranks", size);
    }
    snprintf(mine->version, sizeof mine->version, "%s", coll_version());
    int status = coll__node_identity(&m->env, mine->node, sizeof mine->node);
    coll__env_checked_text(&m->env, mine->checked, sizeof mine->checked);
    mine->rules_hash = coll__rules_hash(coll__world.rules);
    size_t heap_bytes;
    mine->pid = (int32_t)getpid();
    mine->cpus = coll__cpu_count();
    coll__cpu_mask(mine->cpu_mask);
    mine->heap_fd = coll__heap_fd(&heap_bytes);
    mine->heap_bytes = heap_bytes;
    if (status == 0)
        status = coll__job_allgather(m->job, mine, sizeof *mine, m->cards, m->deadline);
    free(mine);
    return status < 0 ? status : coll__cards_compare_first(m->cards, size);
}

static int find_nodes(struct making *m, int rank, int size) {
    m->label = malloc((size_t)size * sizeof *m->label);
    m->local_ranks = malloc((size_t)size * sizeof *m->local_ranks);
    if (!m->label || !m->local_ranks)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the layout of %d ranks", size);
    for (int i = 0; i < size; i++) {
        int same = 0;
        while (strcmp(m->cards[same].node, m->cards[i].node) != 0)
            same++;
        m->label[i] = same;
        if (same == i)
            m->node_count++;
    }
    for (int i = 0; i < size; i++)
        if (m->label[i] == m->label[rank])
            m->local_ranks[m->local_size++] = i;
    if (m->env.transport == COLL__TRANSPORT_SHM && m->node_count > 1)
        return coll__error(COLL_ERR_CONFIG,
                           "COLL_TRANSPORT=shm allows one node, but the ranks are on %d; use auto or ofi",
                           m->node_count);
    return 0;
}

static int open_transport(struct making *m, int id, const coll__transport_ops_t *ops, coll__second_card_t *mine) {
    coll__transport_args_t args = {.env = &m->env,
                                   .world_rank = coll__job_rank(m->job),
                                   .world_size = coll__job_size(m->job),
                                   .max_packet = coll__p2p_max_packet(m->env.packet_size),
                                   .segment = &m->engine->segment,
                                   .sink = coll__p2p_sink(m->engine->p2p)};
    char why[400] = "", detail[400];
    if (!ops->probe(&m->env, why, sizeof why, detail, sizeof detail))
        return coll__error(COLL_ERR_TRANSPORT, "the %s transport cannot be used: %s", ops->name, why);
    int status = ops->open(&args, &m->transports[id]);
    if (status < 0)
        return status;
    coll__engine_add_transport(m->engine, m->transports[id]);
    return ops->address(m->transports[id], &mine->address[id]);
}

/* Opens what the layout needs; `mine` gets this rank's addresses, or what went wrong. */
static void open_transports(struct making *m, bool uses_shm, bool uses_ofi, coll__second_card_t *mine) {
    int status = open_transport(m, COLL__TRANSPORT_ID_self, &coll__transport_self, mine);
    if (status == 0 && uses_shm)
        status = open_transport(m, COLL__TRANSPORT_ID_shm, &coll__transport_shm, mine);
    if (status == 0 && uses_ofi)
        status = open_transport(m, COLL__TRANSPORT_ID_ofi, &coll__transport_ofi, mine);
    mine->status = status;
    if (status < 0)
        snprintf(mine->message, sizeof mine->message, "%s", coll_error_message());
}

/* Tries to reach the symmetric memory of the node's ranks. That it cannot is no error: arrays are then ordinary. */
static bool map_heaps(struct making *m, int rank) {
    for (int local = 0; local < m->local_size; local++) {
        const coll__first_card_t *card = &m->cards[m->local_ranks[local]];
        if (card->heap_fd < 0)
            return false;
        if (m->local_ranks[local] == rank)
            continue;
        if (coll__node_map_heap(m->engine->node, local, card->pid, card->heap_fd, card->heap_bytes) < 0) {
            coll__log(COLL__LOG_INFO, "symmetric memory is used like ordinary memory: %s", coll_error_message());
            return false;
        }
    }
    return true;
}

static void agree_on_heaps(struct making *m) {
    for (int local = 0; local < m->local_size; local++)
        if (!m->second[m->local_ranks[local]].maps_heaps)
            return;
    coll__node_use_heaps(m->engine->node);
}

static int connect_peers(struct making *m, int rank, int size) {
    coll__transport_address_t *addresses = calloc((size_t)size, sizeof *addresses);
    int *peers = malloc((size_t)size * sizeof *peers);
    int status = addresses && peers ? 0 : coll__error(COLL_ERR_MEMORY, "out of memory for %d addresses", size);
    for (int id = 0; status == 0 && id < COLL__TRANSPORT_COUNT; id++) {
        coll__transport_t *transport = m->transports[id];
        if (!transport)
            continue;
        int count = 0;
        for (int peer = 0; peer < size; peer++) {
            bool local = m->label[peer] == m->label[rank];
            int right = peer == rank                                     ? COLL__TRANSPORT_ID_self
                        : local && m->transports[COLL__TRANSPORT_ID_shm] ? COLL__TRANSPORT_ID_shm
                                                                         : COLL__TRANSPORT_ID_ofi;
            if (right != id)
                continue;
            addresses[count] = m->second[peer].address[id];
            peers[count++] = peer;
        }
        status = transport->ops->connect(transport, peers, addresses, count);
        for (int i = 0; status == 0 && i < count; i++)
            coll__p2p_route(m->engine->p2p, peers[i], transport);
    }
    free(addresses);
    free(peers);
    return status;
}

static int make_world(struct making *m, int rank, int size) {
    int *all = malloc((size_t)size * sizeof *all);
    if (!all)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the world communicator");
    for (int i = 0; i < size; i++)
        all[i] = i;
    int status = coll__comm_make(m->engine, WORLD_ID, all, size, rank, &coll__world.comm);
    free(all);
    return status;
}

static int join(struct making *m) {
    int status = meet(m);
    if (status < 0)
        return status;
    int rank = coll__job_rank(m->job), size = coll__job_size(m->job);
    coll__log_setup(m->env.log, rank);
    status = show_first_card(m, size);
    if (status == 0)
        status = find_nodes(m, rank, size);
    if (status == 0)
        status = coll__engine_create(&m->env, m->job, m->wake_fd, &m->engine);
    if (status == 0)
        status = coll__trace_open(m->env.trace, rank, &m->engine->trace);
    if (status < 0)
        return status;
    bool uses_ofi = size > 1 && (m->node_count > 1 || m->env.transport == COLL__TRANSPORT_OFI);
    bool uses_shm = m->local_size > 1 && m->env.transport != COLL__TRANSPORT_OFI;
    m->engine->segment.local_size = m->local_size;
    m->engine->oversubscribed = m->local_size > coll__cards_cpus(m->cards, m->local_ranks, m->local_size);
    if (uses_shm)
        status =
            coll__job_segment(m->job, m->local_ranks, m->local_size,
                              coll__shm_region_bytes(m->local_size, coll__p2p_max_packet(m->env.packet_size)),
                              coll__node_region_bytes(m->local_size), m->wake_fd, m->deadline, &m->engine->segment);
    if (status == 0 && uses_shm)
        status = coll__node_open(&m->engine->segment, &m->engine->node);
    if (status < 0)
        return status;
    coll__second_card_t mine = {0};
    open_transports(m, uses_shm, uses_ofi, &mine);
    if (m->engine->node)
        mine.maps_heaps = map_heaps(m, rank);
    m->second = calloc((size_t)size, sizeof *m->second);
    if (!m->second)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the cards of %d ranks", size);
    status = coll__job_allgather(m->job, &mine, sizeof mine, m->second, m->deadline);
    if (status == 0)
        status = coll__cards_compare_second(m->second, size);
    if (status == 0)
        status = connect_peers(m, rank, size);
    if (status < 0)
        return status;
    if (m->engine->node)
        agree_on_heaps(m);
    coll__world.node_label = m->label;
    coll__world.engine = m->engine;
    status = make_world(m, rank, size);
    if (status == 0)
        status = coll__engine_start(m->engine);
    return status;
}

static void undo(struct making *m) {
    coll__error_info_t error;
    coll__error_save(&error);
    if (m->engine) {
        coll__segment_t segment = m->engine->segment;
        coll__engine_free(m->engine);
        if (segment.base)
            coll__segment_free(&segment);
    }
    if (m->job)
        coll__job_leave(m->job, coll__deadline_after(GOODBYE_BROKEN_S));
    if (m->wake_fd >= 0)
        close(m->wake_fd);
    free(m->label);
    coll__rules_free(coll__world.rules);
    memset(&coll__world, 0, sizeof coll__world);
    coll__error_raise(&error);
}

static void in_child(void) {
    if (coll__world.engine)
        coll__world.forked = true;
}

int coll_init(const coll_init_opts_t *opts, coll_comm_t **world) {
    static bool fork_handler;
    if (!world)
        return coll__error(COLL_ERR_ARG, "init: world is NULL");
    *world = NULL;
    pthread_mutex_lock(&init_lock);
    int status = 0;
    if (coll__world.forked)
        status = coll__error(COLL_ERR_STATE,
                             "init: this process is a fork of one that called coll_init(); start it anew (exec)");
    if (status == 0 && !coll__world.engine) {
        struct making m = {.wake_fd = -1};
        coll_init_opts_t defaults = coll_init_opts_default();
        if (!fork_handler)
            fork_handler = pthread_atfork(NULL, NULL, in_child) == 0;
        status = coll__env_read(&m.env);
        if (status == 0)
            status = coll__opts_apply(opts ? opts : &defaults, &m.env);
        if (status == 0)
            status = coll__rules_create(m.env.tune, m.env.tune_file, &coll__world.rules);
        if (status == 0) {
            m.deadline = coll__deadline_after(m.env.timeout);
            status = join(&m);
            if (status < 0)
                undo(&m);
        }
        free(m.cards);
        free(m.second);
        free(m.local_ranks);
    }
    if (status == 0)
        *world = coll__world.comm;
    pthread_mutex_unlock(&init_lock);
    return status;
}

int coll_world(coll_comm_t **world) {
    if (!world)
        return coll__error(COLL_ERR_ARG, "world: world is NULL");
    *world = coll__world.comm;
    return *world ? 0 : coll__error(COLL_ERR_STATE, "world: coll_init() comes first");
}

int coll_finalize(void) {
    pthread_mutex_lock(&init_lock);
    coll__engine_t *engine = coll__world.engine;
    if (engine && coll__world.forked) {
        coll__job_abandon(engine->job);
        memset(&coll__world, 0, sizeof coll__world);
    } else if (engine) {
        bool broken = coll__world.comm->state == COLL__COMM_BROKEN;
        int64_t deadline = coll__deadline_after(broken ? GOODBYE_BROKEN_S : GOODBYE_S);
        coll__job_t *job = engine->job;
        coll__segment_t segment = engine->segment;
        int wake_fd = engine->wake_fd;
        coll__engine_stop(engine, deadline);
        coll__world.engine = NULL;
        coll__world.comm = NULL;
        coll__job_leave(job, deadline);
        coll__engine_free(engine);
        if (segment.base)
            coll__segment_free(&segment);
        close(wake_fd);
        free(coll__world.node_label);
        coll__rules_free(coll__world.rules);
        memset(&coll__world, 0, sizeof coll__world);
    }
    pthread_mutex_unlock(&init_lock);
    return 0;
}
