/* The node's segment: a memfd without a name anywhere, so nothing fills up and nothing stays behind, whatever happens
 * to the ranks. Its size is sealed: a peer cannot make an access fault by cutting it short. */
#include <coll.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/handout.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static size_t whole_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static size_t bytes_of_lines(int local_size) {
    return whole_pages((size_t)local_size * sizeof(coll__segment_line_t));
}

/* The descriptor, or an error. */
static int make_memory(size_t bytes) {
    int fd = memfd_create("libcoll", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* older than Linux 6.3 */
        fd = memfd_create("libcoll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return coll__error(COLL_ERR_TRANSPORT, "cannot create shared memory: %s", strerror(errno));
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    int why = errno;
    close(fd);
    return coll__error(COLL_ERR_TRANSPORT, "cannot create %zu bytes of shared memory: %s", bytes, strerror(why));
}

static int map_memory(int fd, size_t bytes, void **base) {
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &file) != 0 || (size_t)file.st_size != bytes || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return coll__error(COLL_ERR_TRANSPORT, "the node's segment has not the size that was agreed, or is not sealed");
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*base == MAP_FAILED) {
        *base = NULL;
        return coll__error(COLL_ERR_TRANSPORT, "cannot map %zu bytes of shared memory: %s", bytes, strerror(errno));
    }
    return 0;
}

/* Where this process is among the ranks, which must ascend; -1 for a list that is no such thing. */
static int place_in(const int *ranks, int count, int rank, int size) {
    int place = -1;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= size || (i > 0 && ranks[i] <= ranks[i - 1]))
            return -1;
        if (ranks[i] == rank)
            place = i;
    }
    return place;
}

static void lay_out(coll__segment_t *segment, size_t transport_bytes, size_t node_bytes) {
    char *base = segment->base;
    segment->lines = (coll__segment_line_t *)base;
    segment->transport = base + bytes_of_lines(segment->local_size);
    segment->transport_bytes = transport_bytes;
    segment->node = (char *)segment->transport + whole_pages(transport_bytes);
    segment->node_bytes = node_bytes;
}

/* From here on the watcher looks at the peers' pidfds and at who said goodbye. The job's map of the lines is its own.
 */
static int begin_to_watch(coll__job_t *job, coll__handout_t *handout) {
    int *ranks = malloc((size_t)handout->local_size * sizeof *ranks);
    int *pidfds = malloc((size_t)handout->local_size * sizeof *pidfds);
    void *lines = NULL;
    size_t bytes = bytes_of_lines(handout->local_size);
    int status = 0;
    if (ranks == NULL || pidfds == NULL)
        status = coll__error(COLL_ERR_MEMORY, "no memory to watch %d local ranks", handout->local_size);
    else if ((lines = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handout->memfd, 0)) == MAP_FAILED)
        status = coll__error(COLL_ERR_TRANSPORT, "cannot map shared memory: %s", strerror(errno));
    if (status != 0) {
        free(ranks);
        free(pidfds);
        return status;
    }
    for (int i = 0; i < handout->local_size; i++) {
        ranks[i] = handout->ranks[i];
        pidfds[i] = handout->pidfds[i];
        handout->pidfds[i] = -1;
    }
    pthread_mutex_lock(&job->lock);
    job->local_size = handout->local_size;
    job->local_rank = handout->local_rank;
    job->local_ranks = ranks;
    job->pidfds = pidfds;
    job->lines = lines;
    job->line_bytes = bytes;
    pthread_mutex_unlock(&job->lock);
    coll__job_kick(job);
    return 0;
}

int coll__job_segment(coll__job_t *job, const int *local_ranks, int local_size, size_t transport_bytes,
                      size_t node_bytes, int wake_fd, int64_t deadline, coll__segment_t *segment) {
    *segment = (coll__segment_t){0};
    int place = place_in(local_ranks, local_size, job->rank, job->size);
    if (place < 0)
        return coll__error(COLL_ERR_ARG, "the local ranks must ascend and have rank %d among them", job->rank);
    if (job->lines != NULL)
        return coll__error(COLL_ERR_STATE, "the job has its node segment already");

    int *ranks = malloc((size_t)local_size * sizeof *ranks);
    int *wake_fds = malloc((size_t)local_size * sizeof *wake_fds);
    int *pidfds = malloc((size_t)local_size * sizeof *pidfds);
    if (ranks == NULL || wake_fds == NULL || pidfds == NULL) {
        free(ranks);
        free(wake_fds);
        free(pidfds);
        return coll__error(COLL_ERR_MEMORY, "no memory for a node of %d ranks", local_size);
    }
    memcpy(ranks, local_ranks, (size_t)local_size * sizeof *ranks);
    for (int i = 0; i < local_size; i++) {
        wake_fds[i] = i == place ? wake_fd : -1;
        pidfds[i] = -1;
    }
    segment->local_rank = place;
    segment->local_size = local_size;
    segment->world_rank = ranks;
    segment->wake_fd = wake_fds;

    int status = 0;
    if (local_size > 1) {
        segment->bytes = bytes_of_lines(local_size) + whole_pages(transport_bytes) + whole_pages(node_bytes);
        coll__handout_t handout = {.ranks = ranks,
                                   .local_size = local_size,
                                   .local_rank = place,
                                   .transport_bytes = transport_bytes,
                                   .node_bytes = node_bytes,
                                   .memfd = -1,
                                   .wake_fds = wake_fds,
                                   .pidfds = pidfds};
        if (place == 0) {
            handout.memfd = make_memory(segment->bytes);
            status = handout.memfd < 0 ? handout.memfd : coll__handout_give(job, &handout, deadline);
        } else
            status = coll__handout_take(job, &handout, deadline);
        if (status == 0)
            status = map_memory(handout.memfd, segment->bytes, &segment->base);
        if (status == 0) {
            lay_out(segment, transport_bytes, node_bytes);
            status = begin_to_watch(job, &handout);
        }
        if (status == 0) {
            close(handout.memfd);
        } else if (handout.memfd >= 0)
            coll__handout_close(&handout);
    }
    free(pidfds);
    if (status != 0)
        coll__segment_free(segment);
    return status;
}

void coll__segment_free(coll__segment_t *segment) {
    for (int i = 0; segment->wake_fd != NULL && i < segment->local_size; i++)
        if (i != segment->local_rank && segment->wake_fd[i] >= 0)
            close(segment->wake_fd[i]);
    if (segment->base != NULL)
        munmap(segment->base, segment->bytes);
    free(segment->wake_fd);
    free(segment->world_rank);
    *segment = (coll__segment_t){0};
}
