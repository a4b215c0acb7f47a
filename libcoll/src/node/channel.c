/* The region, and who has which channel of it. */
#include "node/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/status.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t whole_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static size_t channel_bytes(int size) {
    return whole_pages((size_t)size * sizeof(coll__node_member_t)) + COLL__NODE_STAGE;
}

size_t coll__node_region_bytes(int local_size) {
    return whole_pages(sizeof(coll__node_head_t)) + COLL__NODE_CHANNELS * channel_bytes(local_size);
}

/* The memory is new and zero. The node's first rank makes the lock; the others wait for that at their first attach,
 * which comes after a round of messages and so never waits long. */
static int make_lock(coll__node_head_t *head) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    int failed = pthread_mutex_init(&head->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (failed)
        return coll__error(COLL_ERR_TRANSPORT, "the node's lock cannot be made: %s", strerror(failed));
    atomic_store_explicit(&head->ready, 1, memory_order_release);
    return 0;
}

int coll__node_open(const coll__segment_t *segment, coll__node_t **out) {
    coll__node_t *node = calloc(1, sizeof *node);
    if (!node)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the node layer");
    node->heap = calloc((size_t)segment->local_size, sizeof *node->heap);
    node->heap_bytes = calloc((size_t)segment->local_size, sizeof *node->heap_bytes);
    if (!node->heap || !node->heap_bytes) {
        coll__node_close(node);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the node layer");
    }
    node->segment = segment;
    node->head = segment->node;
    node->channels = (unsigned char *)segment->node + whole_pages(sizeof *node->head);
    node->channel_bytes = channel_bytes(segment->local_size);
    int status = segment->local_rank == 0 ? make_lock(node->head) : 0;
    if (status < 0) {
        coll__node_close(node);
        return status;
    }
    *out = node;
    return 0;
}

void coll__node_close(coll__node_t *node) {
    if (!node)
        return;
    for (int i = 0; node->segment && node->heap && i < node->segment->local_size; i++)
        if (node->heap[i])
            munmap(node->heap[i], node->heap_bytes[i]);
    free(node->heap);
    free(node->heap_bytes);
    free(node);
}

int coll__node_map_heap(coll__node_t *node, int local_rank, pid_t pid, int fd, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        return coll__error(COLL_ERR_TRANSPORT, "the heap of local rank %d cannot be opened: %s", local_rank,
                           strerror(errno));
    struct stat file;
    void *base = MAP_FAILED;
    if (fstat(memory, &file) == 0 && file.st_uid == geteuid() && (size_t)file.st_size == bytes)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    close(memory);
    if (base == MAP_FAILED)
        return coll__error(COLL_ERR_TRANSPORT, "the heap of local rank %d cannot be mapped", local_rank);
    node->heap[local_rank] = base;
    node->heap_bytes[local_rank] = bytes;
    return 0;
}

void coll__node_use_heaps(coll__node_t *node) {
    node->uses_heaps = true;
}

bool coll__node_uses_heaps(const coll__node_t *node) {
    return node->uses_heaps;
}

static int lock(coll__node_head_t *head) {
    if (!atomic_load_explicit(&head->ready, memory_order_acquire))
        return coll__error(COLL_ERR_INTERNAL, "the node's region is not ready");
    int failed = pthread_mutex_lock(&head->lock);
    if (failed == EOWNERDEAD)
        failed = pthread_mutex_consistent(&head->lock); /* each change under it is complete in itself */
    return failed ? coll__error(COLL_ERR_TRANSPORT, "the node's lock: %s", strerror(failed)) : 0;
}

static void clear(coll__node_t *node, int channel, int size) {
    unsigned char *base = node->channels + (size_t)channel * node->channel_bytes;
    for (int i = 0; i < size; i++) {
        coll__node_member_t *member = (coll__node_member_t *)base + i;
        atomic_store(&member->staged, 0);
        atomic_store(&member->folded, 0);
        atomic_store(&member->taken, 0);
        atomic_store(&member->finished, 0);
        for (int s = 0; s < COLL__NODE_SLOTS; s++)
            atomic_store(&member->slots[s].sequence, 0);
    }
}

/* [locked] The seat of a communicator; the first member to come takes one, with a channel if there is one. -1: no seat.
 */
static int find_seat(coll__node_t *node, uint64_t id, int size) {
    coll__node_head_t *head = node->head;
    int free_seat = -1;
    for (int i = 0; i < COLL__NODE_SEATS; i++) {
        if (head->seats[i].id == id)
            return i;
        if (head->seats[i].id == 0 && free_seat < 0)
            free_seat = i;
    }
    if (free_seat < 0)
        return -1;
    int channel = 0;
    while (channel < COLL__NODE_CHANNELS && head->channels_used & UINT32_C(1) << channel)
        channel++;
    if (channel == COLL__NODE_CHANNELS) {
        channel = -1;
    } else {
        clear(node, channel, size);
        head->channels_used |= UINT32_C(1) << channel;
    }
    coll__node_seat_t *seat = &head->seats[free_seat];
    seat->channel = channel;
    seat->size = size;
    seat->detached = 0;
    atomic_signal_fence(
        memory_order_seq_cst); /* a rank that dies in between must not leave an id with another's channel */
    seat->id = id;
    return free_seat;
}

static void leave_seat(coll__node_t *node, int index) {
    coll__node_seat_t *seat = &node->head->seats[index];
    if (lock(node->head) < 0)
        return;
    if (++seat->detached == seat->size) {
        if (seat->channel >= 0)
            node->head->channels_used &= ~(UINT32_C(1) << seat->channel);
        seat->id = 0;
    }
    pthread_mutex_unlock(&node->head->lock);
}

static void free_channel(coll__channel_t *channel) {
    free(channel->members);
    free(channel->member);
    free(channel->inputs);
    free(channel->known_finished);
    free(channel->send_at);
    free(channel->recv_at);
    free(channel);
}

/* Has pages ready before the first call needs them: the slots, and of the first channel (the world's) the stages too as
 * long as that is little memory. Where the kernel does not know how (before Linux 5.14), the first calls take longer.
 */
static void populate(const coll__channel_t *channel, unsigned char *base) {
    enum { LITTLE = 16 << 20 };
    const coll__node_t *node = channel->node;
    if (base == node->channels && node->channel_bytes <= LITTLE)
        madvise(base, node->channel_bytes, MADV_POPULATE_WRITE);
    for (int i = 0; i < channel->size; i++)
        madvise(channel->member[i], offsetof(coll__node_member_t, stage), MADV_POPULATE_WRITE);
}

static coll__channel_t *make_channel(coll__node_t *node, const int *members, int size, int rank, int channel) {
    coll__channel_t *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->members = malloc((size_t)size * sizeof *made->members);
    made->member = malloc((size_t)size * sizeof *made->member);
    made->inputs = malloc((size_t)size * sizeof *made->inputs);
    made->known_finished = calloc((size_t)size, sizeof *made->known_finished);
    made->send_at = calloc((size_t)size, sizeof *made->send_at);
    made->recv_at = calloc((size_t)size, sizeof *made->recv_at);
    made->node = node;
    made->size = size;
    made->rank = rank;
    if (!made->members || !made->member || !made->inputs || !made->known_finished || !made->send_at || !made->recv_at) {
        free_channel(made);
        return NULL;
    }
    unsigned char *base = node->channels + (size_t)channel * node->channel_bytes;
    for (int i = 0; i < size; i++) {
        made->members[i] = members[i];
        made->member[i] = (coll__node_member_t *)base + i;
    }
    made->results = base + whole_pages((size_t)node->segment->local_size * sizeof(coll__node_member_t));
    /* More ranks than CPUs take turns: the more of them, the more each should do in its turn. */
    made->chunk_bytes = size <= 2 ? 64 << 10 : size <= 4 ? 128 << 10 : 256 << 10;
    made->chunk_slots = (int)(COLL__NODE_STAGE / made->chunk_bytes);
    populate(made, base);
    return made;
}

int coll__channel_attach(coll__node_t *node, uint64_t id, const int *members, int size, int rank,
                         coll__channel_t **out) {
    *out = NULL;
    int status = lock(node->head);
    if (status < 0)
        return status;
    int seat = find_seat(node, id, size);
    int channel = seat < 0 ? -1 : node->head->seats[seat].channel;
    pthread_mutex_unlock(&node->head->lock);
    if (seat < 0)
        return coll__error(COLL_ERR_TRANSPORT, "the ranks of this node have %d communicators open: close some",
                           COLL__NODE_SEATS);
    if (channel < 0) {
        leave_seat(node, seat);
        return 0;
    }
    coll__channel_t *made = make_channel(node, members, size, rank, channel);
    if (!made) {
        leave_seat(node, seat);
        return coll__error(COLL_ERR_MEMORY, "out of memory for a channel of %d ranks", size);
    }
    made->seat = seat;
    *out = made;
    return 0;
}

void coll__channel_detach(coll__channel_t *channel) {
    if (!channel)
        return;
    leave_seat(channel->node, channel->seat);
    free_channel(channel);
}
