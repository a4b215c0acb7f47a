/* Around the ring: each rank sends to its right-hand neighbour and receives from its left-hand one, then all wait.
 *
 *     cc docs/examples/ring.c -o ring $(pkg-config --cflags --libs libcoll) && pycoll run -n 4 ./ring
 *
 * Each rank prints: rank {rank} got {10 * ((rank - 1) % size)} from rank {(rank - 1) % size}
 */
#include <coll.h>
#include <stdio.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            fprintf(stderr, "%s\n", coll_error_message());                                                             \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(void) {
    coll_comm_t *world;
    CHECK(coll_init(NULL, &world));
    int rank = coll_comm_rank(world), size = coll_comm_size(world);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;

    /* Started, not waited for: if all ranks waited for a receiver, nobody would ever receive. */
    int32_t mine = 10 * rank, yours = -1;
    coll_request_t *sending;
    CHECK(coll_isend(&mine, 1, COLL_INT32, right, 7, world, &sending));
    coll_recv_status_t status;
    CHECK(coll_recv(&yours, 1, COLL_INT32, left, 7, &status, world));
    CHECK(coll_wait(sending, -1.0));
    CHECK(coll_request_free(sending));

    printf("rank %d got %d from rank %d\n", rank, (int)yours, status.source);
    CHECK(coll_barrier(world));
    CHECK(coll_finalize());
    return 0;
}
