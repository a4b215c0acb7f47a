/* The sum of all ranks' numbers, on every rank: pycoll run -n 4 ./allreduce
 *
 * Each rank prints: rank {rank} of {size}: {size} {10 * size} {size * (size - 1) // 2}
 */
#include <coll.h>
#include <stdio.h>

int main(void) {
    coll_comm_t *world;
    if (coll_init(NULL, &world) != COLL_SUCCESS) {
        fprintf(stderr, "%s\n", coll_error_message());
        return 1;
    }
    double mine[3] = {1.0, 10.0, coll_comm_rank(world)}, sum[3];
    if (coll_allreduce(mine, sum, 3, COLL_FLOAT64, COLL_SUM, world) != COLL_SUCCESS) {
        fprintf(stderr, "%s\n", coll_error_message());
        return 1;
    }
    printf("rank %d of %d: %g %g %g\n", coll_comm_rank(world), coll_comm_size(world), sum[0], sum[1], sum[2]);
    return coll_finalize() == COLL_SUCCESS ? 0 : 1;
}
